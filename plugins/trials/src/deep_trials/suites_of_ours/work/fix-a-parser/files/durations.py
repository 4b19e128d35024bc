"""Durations."""

import re

_PARTS = re.compile(r"(?:(\d+)h)?(?:(\d\d?)m)?")


def parse(text):
    """Return the seconds of a text such as `2h`, `1h30m` or `45s`."""
    found = _PARTS.match(text)
    hours, minutes = found.groups()
    return int(hours or 0) * 3600 + int(minutes or 0) * 60
