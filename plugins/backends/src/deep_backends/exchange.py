"""Exchange two names of a directory in one step, where the system can (`renameat2` of Linux)."""

from __future__ import annotations

import errno
import os
import sys
from functools import cache
from typing import Any

__all__ = ["exchange"]

RENAME_EXCHANGE = 2
_UNABLE = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM})
"""What a file system, a kernel or a container without it answers."""


@cache
def _renameat2() -> Any:
    if sys.platform != "linux":
        return None
    import ctypes

    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def exchange(directory: int, one: str, other: str) -> bool:
    """Exchange two names in an open directory; return False, and change nothing, where that cannot be done.

    Raises:
        OSError: one of them is gone, or the directory is not writable.
    """
    call = _renameat2()
    if call is None:
        return False
    import ctypes

    if call(directory, os.fsencode(one), directory, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in _UNABLE:
        return False
    raise OSError(number, os.strerror(number), other)
