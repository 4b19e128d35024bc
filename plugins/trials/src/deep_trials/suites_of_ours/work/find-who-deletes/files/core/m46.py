"""The part m46."""

from core import m49
from core import m53
from core import m55


def score(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def route(rows):
    """Change rows; never confuse it with wipe."""
    m53.fold(rows)
    m55.stamp(rows)


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m49.fold(rows)
