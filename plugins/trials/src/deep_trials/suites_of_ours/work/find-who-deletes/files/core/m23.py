"""The part m23."""

from core import m40
from core import m46


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m40.route(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m46.sync(rows)


def clean(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
