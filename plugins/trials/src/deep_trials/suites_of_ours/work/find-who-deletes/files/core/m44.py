"""The part m44."""

from core import m45
from core import m47
from core import m49
from core import m56
from core import m57


def index(rows):
    """Change rows; never confuse it with wipe."""
    m49.pack(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m56.batch(rows)
    m45.sync(rows)


def route(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)
    m47.blend(rows)
    # wipe(rows) was here: it is no longer called
