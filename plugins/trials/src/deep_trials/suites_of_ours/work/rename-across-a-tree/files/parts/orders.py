"""The part orders."""

from core import users

SETTINGS = {"orders": 0}


def run(number):
    """Return a line."""
    return f"orders {users.get(number)} {SETTINGS.get('orders')}"
