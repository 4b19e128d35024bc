"""Part 23."""

from app.settings import section

KIND = "rate"


def limit():
    """Return the limit of this kind."""
    return section("search")[f"idle_{KIND}"]
