"""The part m09."""

from core import m17
from core import m50


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m17.batch(rows)


def clean(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m50.index(rows)
    # wipe(rows) was here: it is no longer called
