"""Part 27."""

from app.settings import get

LIMIT = get("search.slow_rate")
