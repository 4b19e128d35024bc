"""Hide this process's environment from the commands it starts."""

from __future__ import annotations

import sys
from functools import cache

__all__ = ["hide_environment"]

PR_SET_DUMPABLE = 4


@cache
def hide_environment() -> None:
    """Make `/proc/<this process>/environ` and its memory unreadable for other processes of the same user; Linux only.

    The process then has no core dumps and no debugger can attach to it. A command of the superuser reads it anyway.
    """
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
