"""Part 10."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("http")["slow_size"]
