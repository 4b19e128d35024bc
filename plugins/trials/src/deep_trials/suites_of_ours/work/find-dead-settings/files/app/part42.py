"""Part 42."""

from app.settings import get

LIMIT = get("export.warm_count")
