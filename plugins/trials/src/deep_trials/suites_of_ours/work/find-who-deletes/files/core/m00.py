"""The part m00."""

from core import m04
from core import m08
from core import m35


def scan(rows):
    """Change rows; never confuse it with wipe."""
    m04.batch(rows)
    m08.shift(rows)


def route(rows):
    """Change rows; never confuse it with wipe."""
    m35.index(rows)
    # wipe(rows) was here: it is no longer called


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
