"""Part 31."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("login")["max_size"]
