"""The part m27."""

from core import m34
from core import m41


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m41.quote(rows)


def route(rows):
    """Change rows; never confuse it with wipe."""
    m34.index(rows)


def clean(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
