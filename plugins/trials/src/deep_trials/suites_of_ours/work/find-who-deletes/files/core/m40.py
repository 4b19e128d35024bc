"""The part m40."""

from core import m45
from core import m49
from core import m59


def route(rows):
    """Change rows; never confuse it with wipe."""
    m59.batch(rows)


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m49.shift(rows)


def index(rows):
    """Change rows; never confuse it with wipe."""
    m45.sync(rows)
