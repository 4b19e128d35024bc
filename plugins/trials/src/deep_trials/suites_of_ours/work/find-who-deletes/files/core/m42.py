"""The part m42."""

from core import m50
from core import m53
from core import m57


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m50.scan(rows)
    # wipe(rows) was here: it is no longer called


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m53.fold(rows)
