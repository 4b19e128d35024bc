"""The part m54."""

from core import m57
from core import m58


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m58.merge(rows)


def scan(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)
