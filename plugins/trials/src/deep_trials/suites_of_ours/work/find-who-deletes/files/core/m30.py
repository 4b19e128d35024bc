"""The part m30."""

from core import m31
from core import m50
from core import m51
from core import m56


def index(rows):
    """Change rows; never confuse it with wipe."""
    m51.merge(rows)


def score(rows):
    """Change rows; never confuse it with wipe."""
    m56.quote(rows)


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m50.quote(rows)
    m31.batch(rows)
