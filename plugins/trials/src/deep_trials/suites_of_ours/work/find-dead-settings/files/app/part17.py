"""Part 17."""

from app.settings import section

KIND = "time"


def limit():
    """Return the limit of this kind."""
    return section("queue")[f"idle_{KIND}"]
