"""Part 11."""

from app.settings import section

KIND = "rate"


def limit():
    """Return the limit of this kind."""
    return section("http")[f"idle_{KIND}"]
