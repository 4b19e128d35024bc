"""Part 12."""

from app.settings import get

LIMIT = get("http.min_time")
