"""The part m06."""

from core import m18
from core import m35


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m35.pack(rows)


def blend(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m18.blend(rows)
    # wipe(rows) was here: it is no longer called
