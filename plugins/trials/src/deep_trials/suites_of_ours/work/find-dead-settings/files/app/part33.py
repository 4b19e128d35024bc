"""Part 33."""

from app.settings import get

LIMIT = get("login.slow_time")
