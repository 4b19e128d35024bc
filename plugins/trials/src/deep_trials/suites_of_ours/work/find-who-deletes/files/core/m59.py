"""The part m59."""



def pack(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def batch(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def route(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
