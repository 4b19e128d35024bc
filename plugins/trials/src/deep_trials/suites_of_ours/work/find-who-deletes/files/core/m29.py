"""The part m29."""

from core import m45
from core import m49
from core import m51


def stamp(rows):
    """Change rows; never confuse it with wipe."""
    m45.clean(rows)
    # wipe(rows) was here: it is no longer called


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m49.fold(rows)
    m51.merge(rows)


def trim(rows):
    """Change rows; never confuse it with wipe."""
    m49.fold(rows)
