"""Part 37."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("export")["min_rate"]
