"""The part m41."""

from core import m47
from core import m50
from core import m51
from core import m52
from core import m58


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m50.scan(rows)


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m51.merge(rows)
    m47.scan(rows)
    # wipe(rows) was here: it is no longer called


def sync(rows):
    """Change rows; never confuse it with wipe."""
    m58.merge(rows)
    m52.pack(rows)
