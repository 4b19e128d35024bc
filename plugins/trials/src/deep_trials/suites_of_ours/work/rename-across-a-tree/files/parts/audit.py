"""The part audit."""

from core import users

SETTINGS = {"audit": 4}


def run(number):
    """Return a line."""
    return f"audit {users.get(number)} {SETTINGS.get('audit')}"
