"""Invoices."""

from .prices import calc


def lines(items):
    """Return a line for each item: name and net price."""
    return [f"{name}: {calc(gross, 25)}" for name, gross in items]
