"""The part m07."""

from core import m26
from core import m44
from core import m45
from core import m47


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m44.index(rows)
    # wipe(rows) was here: it is no longer called


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m45.batch(rows)


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m47.batch(rows)
    m26.sync(rows)
