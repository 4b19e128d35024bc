"""Part 25."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("search")["max_count"]
