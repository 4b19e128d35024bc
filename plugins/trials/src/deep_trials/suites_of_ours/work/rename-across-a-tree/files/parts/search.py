"""The part search."""

from core.users import get


def run(number):
    """Return a line."""
    return "search " + get(number)
