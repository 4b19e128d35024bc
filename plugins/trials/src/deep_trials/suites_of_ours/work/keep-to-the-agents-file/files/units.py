"""Units."""

__all__ = ["kilograms", "meters"]


def _number(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError("not a number")
    return value


def kilograms(pounds):
    """Return kilograms."""
    return round(_number(pounds) * 0.45359237, 1)


def meters(feet):
    """Return meters."""
    return round(_number(feet) * 0.3048, 1)
