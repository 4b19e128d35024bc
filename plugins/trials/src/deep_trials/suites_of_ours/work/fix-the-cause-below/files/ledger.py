"""The ledger."""

from units import to_cents, to_text


def balance(start, moves):
    """Return what is left after moves."""
    return to_text(to_cents(start) + sum(to_cents(each) for each in moves))
