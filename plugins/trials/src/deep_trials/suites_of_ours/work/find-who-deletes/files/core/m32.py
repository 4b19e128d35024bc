"""The part m32."""

from core import m33
from core import m38
from core import m40
from core import m43
from core import m45
from core import m50


def blend(rows):
    """Change rows; never confuse it with wipe."""
    m50.index(rows)
    m33.trim(rows)


def shift(rows):
    """Change rows; never confuse it with wipe."""
    m43.shift(rows)
    m38.clean(rows)


def quote(rows):
    """Change rows; never confuse it with wipe."""
    m40.route(rows)
    m45.sync(rows)
