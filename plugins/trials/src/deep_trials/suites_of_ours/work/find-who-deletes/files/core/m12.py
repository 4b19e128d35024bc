"""The part m12."""

from core import m14
from core import m15
from core import m32


def merge(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m15.score(rows)
    m14.score(rows)


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m32.blend(rows)
