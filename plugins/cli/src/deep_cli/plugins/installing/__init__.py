"""`deep plugins install`, `uninstall` and `restore`: by the tool that made this environment."""
