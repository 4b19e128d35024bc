"""The part m34."""

from core import m36
from core import m38
from core import m46
from core import m47


def index(rows):
    """Change rows; never confuse it with wipe."""
    m47.batch(rows)
    m38.index(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m46.sync(rows)
    m36.route(rows)
