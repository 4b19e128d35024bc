"""Part 9."""

from app.settings import get

LIMIT = get("http.warm_rate")
