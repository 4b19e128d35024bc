"""The part m05."""

from core import m30
from core import m32
from core import m54


def route(rows):
    """Change rows; never confuse it with wipe."""
    m32.quote(rows)


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m30.score(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m54.batch(rows)
    # wipe(rows) was here: it is no longer called
