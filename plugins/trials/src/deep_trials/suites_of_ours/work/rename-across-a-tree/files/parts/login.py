"""The part login."""

import core.users


class Store(dict):
    """Its get is its own."""


def run(number):
    """Return a line."""
    return f"login {core.users.get(number)} {Store(a=1).get('a')}"
