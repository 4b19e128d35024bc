"""The part m37."""

from core import m39
from core import m44
from core import m52


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m39.fold(rows)
    m52.score(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    m52.batch(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m44.fold(rows)
    # wipe(rows) was here: it is no longer called
