"""The part m08."""

from core import m30
from core import m48


def index(rows):
    """Change rows; never confuse it with wipe."""
    m48.route(rows)
    m30.sync(rows)


def clean(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def shift(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
