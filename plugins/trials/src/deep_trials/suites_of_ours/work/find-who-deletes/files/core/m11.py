"""The part m11."""

from core import m14
from core import m21
from core import m37


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m21.stamp(rows)
    m37.pack(rows)


def shift(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m14.fold(rows)
