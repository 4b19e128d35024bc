"""The part m01."""

from core import m07
from core import m18
from core import m29
from core import m52


def route(rows):
    """Change rows; never confuse it with wipe."""
    m18.index(rows)


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m29.stamp(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m52.batch(rows)
    m07.shift(rows)
