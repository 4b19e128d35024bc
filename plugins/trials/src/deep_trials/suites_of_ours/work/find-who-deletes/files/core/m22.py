"""The part m22."""

from core import m24
from core import m44
from core import m49
from core import m59


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m24.fold(rows)


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m44.route(rows)
    m59.batch(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m49.pack(rows)
