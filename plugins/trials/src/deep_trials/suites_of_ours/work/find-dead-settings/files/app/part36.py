"""Part 36."""

from app.settings import get

LIMIT = get("login.idle_size")
