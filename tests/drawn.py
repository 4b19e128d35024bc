"""How many examples hypothesis draws: what a test asks for, or fewer where DEEP_TEST_EXAMPLES says so (the matrix)."""

from __future__ import annotations

import os

__all__ = ["examples"]

MOST = os.environ.get("DEEP_TEST_EXAMPLES")


def examples(wanted: int) -> int:
    """`max_examples` of a test that wants so many."""
    return wanted if MOST is None else min(wanted, int(MOST))
