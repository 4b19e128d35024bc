"""Part 30."""

from app.settings import get

LIMIT = get("login.idle_rate")
