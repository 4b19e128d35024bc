"""Reports."""

from units import to_cents, to_text


def total(amounts):
    """Return the sum of amounts, as a text."""
    return to_text(sum(map(to_cents, amounts)))
