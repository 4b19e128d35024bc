"""Amounts of money, kept as whole cents."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal


def round_cents(amount: Decimal) -> int:
    """Round to whole cents; half a cent goes up."""
    return int(amount.to_integral_value(rounding=ROUND_HALF_UP))


def to_cents(text: str) -> int:
    """Read an amount such as "19.99"."""
    return int(float(text) * 100)


def percent(cents: int, rate: str) -> int:
    """`rate` percent of an amount, as for a tax."""
    return round_cents(Decimal(cents) * Decimal(rate) / 100)


def show(cents: int, currency: str = "EUR") -> str:
    """An amount as people read it: `1,234.50 EUR`."""
    sign = "-" if cents < 0 else ""
    whole, rest = divmod(abs(cents), 100)
    return f"{sign}{whole:,}.{rest:02} {currency}"
