"""Part 32."""

from app.settings import section

KIND = "count"


def limit():
    """Return the limit of this kind."""
    return section("login")[f"warm_{KIND}"]
