"""Users."""

USERS = {1: "ann", 2: "bo"}


def get(number):
    """Return the name of a user."""
    return USERS[number]


def get_all():
    """Return all names."""
    return [get(number) for number in sorted(USERS)]
