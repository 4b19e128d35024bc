"""Part 2."""

from app.settings import section

KIND = "time"


def limit():
    """Return the limit of this kind."""
    return section("mail")[f"idle_{KIND}"]
