"""The part m31."""

from core import m35
from core import m56
from core import m58


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m56.quote(rows)


def batch(rows):
    """Change rows; never confuse it with wipe."""
    # wipe(rows) was here: it is no longer called


def score(rows):
    """Change rows; never confuse it with wipe."""
    m58.merge(rows)
    m35.route(rows)
