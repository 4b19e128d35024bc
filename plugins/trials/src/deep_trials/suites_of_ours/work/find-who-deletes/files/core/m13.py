"""The part m13."""

from core import m21
from core import m28
from core import m44


def merge(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def score(rows):
    """Change rows; never confuse it with wipe."""
    m21.pack(rows)
    m28.index(rows)


def scan(rows):
    """Change rows; never confuse it with wipe."""
    m44.fold(rows)
