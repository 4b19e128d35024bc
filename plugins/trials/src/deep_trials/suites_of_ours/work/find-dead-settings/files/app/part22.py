"""Part 22."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("queue")["min_time"]
