"""The part m35."""

from core import m50
from core import m56


def index(rows):
    """Change rows; never confuse it with wipe."""
    m50.quote(rows)


def pack(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def route(rows):
    """Change rows; never confuse it with wipe."""
    m56.quote(rows)
