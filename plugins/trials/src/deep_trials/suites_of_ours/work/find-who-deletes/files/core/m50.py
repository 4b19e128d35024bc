"""The part m50."""

from core import m56
from core import m58


def index(rows):
    """Change rows; never confuse it with wipe."""
    m58.index(rows)


def quote(rows):
    """Change rows; never confuse it with wipe."""
    # wipe(rows) was here: it is no longer called


def scan(rows):
    """Change rows; never confuse it with wipe."""
    m56.quote(rows)
