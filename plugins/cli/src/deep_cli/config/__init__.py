"""`deep config` and `deep keys`: settings with their sources, and the keys of model providers."""
