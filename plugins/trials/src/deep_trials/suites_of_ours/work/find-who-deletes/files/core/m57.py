"""The part m57."""

from core import m58
from core import m59


def route(rows):
    """Change rows; never confuse it with wipe."""
    m58.index(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def index(rows):
    """Change rows; never confuse it with wipe."""
    m59.pack(rows)
