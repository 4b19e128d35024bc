"""Carts."""


def average(prices):
    """Return the mean price in cents, rounded down."""
    return sum(prices) // len(prices)


def summary(prices):
    """Return what a page shows of a cart."""
    return {
        "total": sum(prices),
        "average": average(prices),
        "dearest": max(prices),
    }
