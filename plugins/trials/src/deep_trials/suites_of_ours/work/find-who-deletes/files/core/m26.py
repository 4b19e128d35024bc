"""The part m26."""

from core import m27
from core import m42
from core import m49
from core import m51


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m49.pack(rows)
    # wipe(rows) was here: it is no longer called


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m42.sync(rows)
    # wipe(rows) was here: it is no longer called


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m27.route(rows)
    m51.trim(rows)
