"""The part m14."""

from core import m17
from core import m30
from core import m32
from core import m37


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m32.blend(rows)


def score(rows):
    """Change rows; never confuse it with wipe."""
    m17.batch(rows)
    m30.score(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m37.shift(rows)
