"""Check the arguments of a range read and of a guarded write."""

from __future__ import annotations

import string

__all__ = ["check_expected", "check_range"]


def check_range(start: int, length: int) -> None:
    """Reject a negative `start` or `length` with a `ValueError`, as `SupportsRangeRead` requires."""
    if start < 0 or length < 0:
        raise ValueError(f"start and length are bytes and cannot be negative, got {start} and {length}")


def check_expected(expected: str | None) -> None:
    """Reject anything but a SHA-256 in hexadecimal with a `ValueError`, as `SupportsGuardedWrite` requires."""
    if expected is not None and (len(expected) != 64 or not set(expected) <= set(string.hexdigits)):
        raise ValueError(f"expected must be a SHA-256 in hexadecimal (64 digits) or None, got {expected!r}")
