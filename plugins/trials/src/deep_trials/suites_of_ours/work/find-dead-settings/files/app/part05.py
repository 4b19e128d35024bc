"""Part 5."""

from app.settings import section

KIND = "size"


def limit():
    """Return the limit of this kind."""
    return section("mail")[f"idle_{KIND}"]
