"""`deep plugins` and `deep new`: what is installed, what it contributes to the command line, and what breaks."""
