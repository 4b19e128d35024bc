"""Amounts of money, in cents."""


def to_cents(text):
    """Return the cents of an amount such as `12.30`, `7` or `0.5`."""
    whole, _, part = text.partition(".")
    return int(whole) * 100 + int(part or 0)


def to_text(cents):
    """Return an amount with two decimals."""
    return f"{cents / 100:.2f}"
