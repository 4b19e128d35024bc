"""The part m03."""

from core import m29


def batch(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def fold(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m29.blend(rows)
