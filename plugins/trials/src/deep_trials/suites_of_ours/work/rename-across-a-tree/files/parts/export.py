"""The part export."""

from core.users import get as name_of, get_all


def run(number):
    """Return a line; get more with get_all."""
    return f"export {name_of(number)} of {len(get_all())}"
