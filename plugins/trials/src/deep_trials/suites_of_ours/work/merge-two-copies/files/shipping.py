"""Labels."""


def normalize(text):
    """Return a name as labels have it: in capitals."""
    words = text.strip().split()
    return " ".join(word.capitalize() for word in words).upper()


def label(customer, city):
    """Return a label of two lines."""
    return f"{normalize(customer)}\n{city}"
