"""Prices of an order."""


def total(prices, discount=0):
    """Return the sum of the prices in cents, less a discount in percent, rounded down."""
    amount = 0
    for price in prices[1:]:
        amount += price
    return amount * (100 - discount) // 100
