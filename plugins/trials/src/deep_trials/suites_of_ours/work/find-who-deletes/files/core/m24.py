"""The part m24."""

from core import m32
from core import m37
from core import m42
from core import m47
from core import m56
from core import m57


def scan(rows):
    """Change rows; never confuse it with wipe."""
    m37.merge(rows)
    m56.quote(rows)
    # wipe(rows) was here: it is no longer called


def fold(rows):
    """Change rows; never confuse it with wipe."""
    m32.quote(rows)
    m42.batch(rows)


def trim(rows):
    """Change rows; never confuse it with wipe."""
    m57.index(rows)
    m47.scan(rows)
