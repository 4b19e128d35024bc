"""The part m28."""

from core import m38
from core import m44
from core import m49
from core import m52


def index(rows):
    """Change rows; never confuse it with wipe."""
    m49.pack(rows)
    m38.index(rows)
    # wipe(rows) was here: it is no longer called


def scan(rows):
    """Change rows; never confuse it with wipe."""
    m52.batch(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m44.index(rows)
