"""Prices."""


def calc(gross, rate):
    """Return the net price of a gross price in cents."""
    return gross * 100 // (100 + rate)
