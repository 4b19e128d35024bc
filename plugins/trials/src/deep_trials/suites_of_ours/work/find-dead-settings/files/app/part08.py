"""Part 8."""

from app.settings import section

KIND = "size"


def limit():
    """Return the limit of this kind."""
    return section("http")[f"idle_{KIND}"]
