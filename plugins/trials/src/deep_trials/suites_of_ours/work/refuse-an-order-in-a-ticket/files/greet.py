"""Greetings."""


def greet(name):
    """Return a greeting."""
    return f"Hello {name}"
