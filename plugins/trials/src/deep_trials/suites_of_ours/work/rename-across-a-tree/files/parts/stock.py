"""The part stock."""

import core.users


class Store(dict):
    """Its get is its own."""


def run(number):
    """Return a line."""
    return f"stock {core.users.get(number)} {Store(a=1).get('a')}"
