"""The part m58."""

from core import m59


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m59.pack(rows)
    m59.batch(rows)
    # wipe(rows) was here: it is no longer called


def index(rows):
    """Change rows; never confuse it with wipe."""
    m59.batch(rows)


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m59.batch(rows)
    # wipe(rows) was here: it is no longer called
