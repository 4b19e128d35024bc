"""Part 34."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("login")["idle_count"]
