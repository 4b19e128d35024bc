"""The part m25."""

from core import m33
from core import m35
from core import m39
from core import m42


def trim(rows):
    """Change rows; never confuse it with wipe."""
    m42.batch(rows)
    m33.merge(rows)


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m35.index(rows)
    # wipe(rows) was here: it is no longer called


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m39.sync(rows)
    # wipe(rows) was here: it is no longer called
