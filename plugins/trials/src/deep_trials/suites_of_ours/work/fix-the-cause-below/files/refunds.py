"""Refunds."""

from units import to_cents


def largest(amounts):
    """Return the cents of the largest amount."""
    return max(map(to_cents, amounts))
