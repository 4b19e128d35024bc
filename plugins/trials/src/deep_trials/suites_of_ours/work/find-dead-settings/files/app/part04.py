"""Part 4."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("mail")["slow_time"]
