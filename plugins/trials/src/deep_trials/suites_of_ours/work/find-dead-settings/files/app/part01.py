"""Part 1."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("mail")["warm_count"]
