"""The part m49."""

from core import m50
from core import m52
from core import m58


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m58.index(rows)
    m52.pack(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m50.scan(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
