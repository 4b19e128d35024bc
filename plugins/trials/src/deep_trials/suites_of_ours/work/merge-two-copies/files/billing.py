"""Bills."""


def normalize(text):
    """Return a name as bills have it."""
    words = text.strip().split()
    return " ".join(word.capitalize() for word in words)


def line(customer, cents):
    """Return the line of a bill."""
    return f"{normalize(customer)}: {cents / 100:.2f}"
