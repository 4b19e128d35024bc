"""The part m36."""

from core import m53


def route(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m53.scan(rows)


def quote(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()
