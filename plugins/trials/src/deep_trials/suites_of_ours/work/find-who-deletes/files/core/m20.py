"""The part m20."""

from core import m43
from core import m48
from core import m58


def score(rows):
    """Change rows; never confuse it with wipe."""
    m43.shift(rows)
    # wipe(rows) was here: it is no longer called


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m48.fold(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    m58.stamp(rows)
