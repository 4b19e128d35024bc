"""The part m04."""

from core import m48
from core import m51
from core import m57


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)
    m48.pack(rows)


def sync(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m51.route(rows)
