"""Part 15."""

from app.settings import get

LIMIT = get("http.retry_time")
