"""Part 18."""

from app.settings import get

LIMIT = get("queue.slow_size")
