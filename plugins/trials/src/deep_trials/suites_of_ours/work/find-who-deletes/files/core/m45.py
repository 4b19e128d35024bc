"""The part m45."""

from core.danger import wipe as reset_rows
from core import m52


def batch(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def sync(rows):
    """Change rows; never confuse it with wipe."""
    reset_rows(rows)


def clean(rows):
    """Change rows; never confuse it with wipe."""
    m52.score(rows)
