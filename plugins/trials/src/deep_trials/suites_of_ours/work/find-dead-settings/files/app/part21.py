"""Part 21."""

from app.settings import get

LIMIT = get("queue.warm_count")
