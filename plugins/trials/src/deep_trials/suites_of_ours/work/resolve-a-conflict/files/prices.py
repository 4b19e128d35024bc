"""Prices."""

<<<<<<< ours
RATES = {"de": 19, "fr": 20, "ch": 8}
=======
RATES = {"de": 19, "fr": 20, "at": 20}
>>>>>>> theirs


<<<<<<< ours
def gross(net, country, reduced=False):
    """Return a price with tax, in cents, rounded down."""
    rate = RATES[country]
    if reduced:
        rate = rate // 2
    return net + net * rate // 100
=======
def gross(net, country):
    """Return a price with tax, in cents, rounded half up."""
    return net + (net * RATES[country] + 50) // 100
>>>>>>> theirs
