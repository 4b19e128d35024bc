"""Part 19."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("queue")["max_time"]
