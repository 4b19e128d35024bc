"""The part m21."""

from core import m22
from core import m40
from core import m45
from core import m46
from core import m57


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m57.route(rows)
    m40.route(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m22.merge(rows)
    m46.sync(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    m45.sync(rows)
