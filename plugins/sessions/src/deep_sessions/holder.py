"""The name of a lease's holder, and whether the process behind it is dead."""

from __future__ import annotations

import os
import socket
import uuid

__all__ = ["is_dead", "this_process"]

_TOKEN = uuid.uuid4().hex[:8]
"""Tells this process from a later one with the same number."""


def this_process() -> str:
    """Return `host:process:token` of this process."""
    return f"{socket.gethostname()}:{os.getpid()}:{_TOKEN}"


def is_dead(holder: str) -> bool:
    """Whether the holder is a process of this host that no longer exists. False where that cannot be known."""
    host, _, rest = holder.rpartition(":")[0].rpartition(":")
    if host != socket.gethostname() or not rest.isdecimal():
        return False
    try:
        os.kill(int(rest), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False
