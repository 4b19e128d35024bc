"""Part 38."""

from app.settings import section

KIND = "size"


def limit():
    """Return the limit of this kind."""
    return section("export")[f"slow_{KIND}"]
