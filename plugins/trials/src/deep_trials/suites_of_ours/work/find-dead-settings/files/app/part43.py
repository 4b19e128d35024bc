"""Part 43."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("export")["retry_size"]
