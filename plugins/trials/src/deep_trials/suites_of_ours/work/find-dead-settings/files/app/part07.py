"""Part 7."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("mail")["min_time"]
