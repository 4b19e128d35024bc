"""The part m17."""

from core import m18
from core import m26
from core import m39
from core import m45


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m39.sync(rows)


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m26.batch(rows)


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m45.clean(rows)
    m18.blend(rows)
