"""The part m33."""

from core import m44
from core import m46
from core import m47
from core import m48
from core import m55


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m47.scan(rows)
    m44.fold(rows)


def merge(rows):
    """Change rows; never confuse it with wipe."""
    m46.score(rows)
    m48.fold(rows)
    # wipe(rows) was here: it is no longer called


def trim(rows):
    """Change rows; never confuse it with wipe."""
    m47.scan(rows)
    m55.route(rows)
