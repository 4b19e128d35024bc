"""The part m52."""

from core import m56
from core import m59


def score(rows):
    """Change rows; never confuse it with wipe."""
    m56.sync(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    m56.sync(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m59.pack(rows)
