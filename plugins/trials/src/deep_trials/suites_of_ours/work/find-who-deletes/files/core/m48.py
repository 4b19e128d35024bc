"""The part m48."""

from core import m51
from core import m53
from core import m54
from core import m59


def route(rows):
    """Change rows; never confuse it with wipe."""
    m51.merge(rows)
    m59.pack(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    m54.stamp(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m53.score(rows)
