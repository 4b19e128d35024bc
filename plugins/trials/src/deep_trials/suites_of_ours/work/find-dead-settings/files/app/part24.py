"""Part 24."""

from app.settings import get

LIMIT = get("search.max_size")
