"""The part m51."""

from core import m55
from core import m57


def route(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def trim(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m55.merge(rows)
