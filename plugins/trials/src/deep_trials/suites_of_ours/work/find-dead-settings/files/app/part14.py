"""Part 14."""

from app.settings import section

KIND = "count"


def limit():
    """Return the limit of this kind."""
    return section("http")[f"warm_{KIND}"]
