"""The part m02."""

from core import m16
from core import m29
from core import m36
from core import m40


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m40.route(rows)


def trim(rows):
    """Change rows; never confuse it with wipe."""
    m16.fold(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m36.shift(rows)
    m29.blend(rows)
