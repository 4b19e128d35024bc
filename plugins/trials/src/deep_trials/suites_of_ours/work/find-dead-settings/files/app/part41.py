"""Part 41."""

from app.settings import section

KIND = "size"


def limit():
    """Return the limit of this kind."""
    return section("export")[f"max_{KIND}"]
