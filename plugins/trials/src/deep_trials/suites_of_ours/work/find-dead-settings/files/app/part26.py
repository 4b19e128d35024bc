"""Part 26."""

from app.settings import section

KIND = "time"


def limit():
    """Return the limit of this kind."""
    return section("search")[f"max_{KIND}"]
