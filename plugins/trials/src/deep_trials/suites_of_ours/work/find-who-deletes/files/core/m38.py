"""The part m38."""

from core import m41
from core import m52
from core import m53
from core import m56


def index(rows):
    """Change rows; never confuse it with wipe."""
    m56.quote(rows)
    m41.sync(rows)


def clean(rows):
    """Change rows; never confuse it with wipe."""
    m53.score(rows)
    # wipe(rows) was here: it is no longer called


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m52.batch(rows)
