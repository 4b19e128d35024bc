"""The part m55."""

from core import m56
from core import m57
from core import m58
from core import m59


def route(rows):
    """Change rows; never confuse it with wipe."""
    m59.pack(rows)
    m58.index(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m57.fold(rows)


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)
    m56.batch(rows)
