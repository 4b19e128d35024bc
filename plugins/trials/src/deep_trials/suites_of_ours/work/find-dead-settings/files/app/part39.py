"""Part 39."""

from app.settings import get

LIMIT = get("export.retry_time")
