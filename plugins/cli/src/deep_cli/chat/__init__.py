"""`deep chat`: a conversation about the current folder, on a terminal or from a pipe."""
