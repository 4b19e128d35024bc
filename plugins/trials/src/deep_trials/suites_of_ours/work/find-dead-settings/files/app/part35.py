"""Part 35."""

from app.settings import section

KIND = "count"


def limit():
    """Return the limit of this kind."""
    return section("login")[f"min_{KIND}"]
