"""The part m56."""

from core import m57


def quote(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def sync(rows):
    """Change rows; never confuse it with wipe."""
    # wipe(rows) was here: it is no longer called


def batch(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)
    m57.route(rows)
    # wipe(rows) was here: it is no longer called
