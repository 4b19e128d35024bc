"""The shop: carts, coupons and labels."""

COUPONS = {"SPRING": 10, "BULK": 25}


class Cart:
    """What a customer wants."""

    def __init__(self):
        self.items = []

    def add(self, name, cents, count=1):
        """Add an article."""
        self.items.append((name, cents, count))

    def total(self, code=None):
        """Return the price in cents, with a coupon."""
        whole = sum(cents * count for _, cents, count in self.items)
        return whole - discount(whole, code)


def discount(cents, code):
    """Return what a coupon saves; unknown ones save nothing."""
    return cents * COUPONS.get(code, 0) // 100


def label(cart):
    """Return a line for each article, and the total."""
    lines = [f"{count} x {name}" for name, _, count in cart.items]
    return "\n".join([*lines, f"total {cart.total()}"])
