"""Part 40."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("export")["warm_rate"]
