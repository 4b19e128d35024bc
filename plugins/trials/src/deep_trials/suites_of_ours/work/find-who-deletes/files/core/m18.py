"""The part m18."""

from core import m44
from core import m46


def scan(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def index(rows):
    """Change rows; never confuse it with wipe."""
    m44.route(rows)
    # wipe(rows) was here: it is no longer called


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m46.sync(rows)
    m46.route(rows)
