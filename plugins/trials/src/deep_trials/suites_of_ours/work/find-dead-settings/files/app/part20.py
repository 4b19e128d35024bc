"""Part 20."""

from app.settings import section

KIND = "size"


def limit():
    """Return the limit of this kind."""
    return section("queue")[f"warm_{KIND}"]
