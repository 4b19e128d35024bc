"""Part 6."""

from app.settings import get

LIMIT = get("mail.min_count")
