"""The part quota."""

from core import users

SETTINGS = {"quota": 8}


def run(number):
    """Return a line."""
    return f"quota {users.get(number)} {SETTINGS.get('quota')}"
