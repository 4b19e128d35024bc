"""The part m10."""

from core import m16
from core import m29
from core import m42
from core import m50


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m50.quote(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m29.stamp(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m42.merge(rows)
    m16.sync(rows)
