"""The part m15."""

from core import m19
from core import m41


def batch(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m19.clean(rows)


def score(rows):
    """Change rows; never confuse it with wipe."""
    m41.fold(rows)
    # wipe(rows) was here: it is no longer called
