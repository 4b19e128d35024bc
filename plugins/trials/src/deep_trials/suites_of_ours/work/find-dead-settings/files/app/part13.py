"""Part 13."""

from app import settings


def limit():
    """Return the limit."""
    return settings.section("http")["max_rate"]
