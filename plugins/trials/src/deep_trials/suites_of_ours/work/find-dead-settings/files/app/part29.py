"""Part 29."""

from app.settings import section

KIND = "rate"


def limit():
    """Return the limit of this kind."""
    return section("search")[f"min_{KIND}"]
