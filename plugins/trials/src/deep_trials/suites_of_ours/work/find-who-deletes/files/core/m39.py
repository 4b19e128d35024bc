"""The part m39."""

from core import m40
from core import m49
from core import m50


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m49.pack(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m50.scan(rows)
    # wipe(rows) was here: it is no longer called


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m40.index(rows)
