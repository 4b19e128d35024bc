"""The part bills."""

from core.users import get


def run(number):
    """Return a line."""
    return "bills " + get(number)
