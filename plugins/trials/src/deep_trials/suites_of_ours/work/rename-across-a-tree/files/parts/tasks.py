"""The part tasks."""

from core.users import get


def run(number):
    """Return a line."""
    return "tasks " + get(number)
