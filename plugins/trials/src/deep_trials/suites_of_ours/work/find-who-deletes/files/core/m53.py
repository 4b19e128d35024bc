"""The part m53."""

from core import m57
from core import m59


def fold(rows):
    """Change rows; never confuse it with wipe."""
    # wipe(rows) was here: it is no longer called


def scan(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def score(rows):
    """Change rows; never confuse it with wipe."""
    m59.route(rows)
    m57.route(rows)
    # wipe(rows) was here: it is no longer called
