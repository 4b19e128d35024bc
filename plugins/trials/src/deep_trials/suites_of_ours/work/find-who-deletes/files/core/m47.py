"""The part m47."""

from core import m57
from core import m58


def scan(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m58.merge(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m57.route(rows)
