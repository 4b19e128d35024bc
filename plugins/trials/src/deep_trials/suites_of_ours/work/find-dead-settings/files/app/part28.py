"""Part 28."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("search")["min_count"]
