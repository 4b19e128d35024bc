"""The part m43."""

from core import m48
from core import m52
from core import m58


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m48.route(rows)
    # wipe(rows) was here: it is no longer called


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m52.score(rows)


def route(rows):
    """Change rows; never confuse it with wipe."""
    m58.index(rows)
