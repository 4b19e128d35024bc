"""Part 3."""

from app.settings import get

LIMIT = get("mail.slow_rate")
