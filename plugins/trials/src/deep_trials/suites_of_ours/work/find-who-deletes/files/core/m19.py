"""The part m19."""

from core import m39
from core import m46
from core import m49


def clean(rows):
    """Change rows; never confuse it with wipe."""
    m49.pack(rows)
    m46.score(rows)


def trim(rows):
    """Change rows; never confuse it with wipe."""
    rows.sort()


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m39.sync(rows)
    m39.fold(rows)
