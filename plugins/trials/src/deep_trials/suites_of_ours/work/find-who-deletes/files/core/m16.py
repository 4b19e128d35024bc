"""The part m16."""

from core import m17
from core import m24
from core import m28


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m17.batch(rows)
    m24.scan(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m17.sync(rows)
    m28.index(rows)
