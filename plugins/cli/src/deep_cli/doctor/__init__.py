"""`deep doctor` and `deep explain`: what is wrong, and what the agent consists of."""
