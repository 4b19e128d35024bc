"""The checkout."""

from shop import Cart, label


def receipt(items):
    """Return the label of some articles."""
    cart = Cart()
    for item in items:
        cart.add(*item)
    return label(cart)
