"""The name of a lease's holder, whether the process behind it is dead, and the clock of this machine."""

from __future__ import annotations

import hashlib
import os
import socket
import time
import uuid
from functools import cache
from pathlib import Path

__all__ = ["is_dead", "seconds_left", "this_boot", "this_process", "uptime"]

_PROC = Path("/proc")


def this_process() -> str:
    """Return `host:process:place.start` of this process.

    The place tells apart two machines or containers that share a host name; the start tells apart two processes that
    had one number, the second after the first.
    """
    return f"{socket.gethostname()}:{os.getpid()}:{_place()}.{_start_of(os.getpid()) or _random()}"


def is_dead(holder: str) -> bool:
    """Whether the holder is a process of this place that no longer exists. False where that cannot be known.

    A wrong True would let two runners into one session, a wrong False only waits for the end of the lease.
    """
    name, _, token = holder.rpartition(":")
    host, _, number = name.rpartition(":")
    place, _, start = token.rpartition(".")
    # On Windows, os.kill(pid, 0) sends Ctrl-C.
    if os.name != "posix" or host != socket.gethostname() or place != _place() or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    started = _start_of(int(number))
    return (started is not None and started != start) or _has_exited(int(number))


def seconds_left(boot: str | None, until: float | None, otherwise: float) -> float:
    """Return how long a lease lasts.

    Wall clocks are set: by NTP, by hand, after a suspension. On one machine the time since its boot decides.

    Args:
        boot: `this_boot` of the machine that renewed the lease last.
        until: `uptime` there at the lease's end.
        otherwise: the seconds by the wall clock, for another machine, or one that was started anew.
    """
    return otherwise if boot is None or until is None or boot != this_boot() else until - uptime()


def uptime() -> float:
    """Return the seconds since this machine booted, those that it slept included. Nothing sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@cache
def this_boot() -> str | None:
    """Return a name of this boot of this machine, which has one `uptime`; None where the system does not tell."""
    if not hasattr(time, "CLOCK_BOOTTIME"):
        return None
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return None
    try:  # a container may have a clock of its own
        clock = os.readlink(_PROC / "self/ns/time")
    except OSError:
        clock = ""
    return hashlib.sha256(f"{boot} {clock}".encode()).hexdigest()[:12]


@cache
def _place() -> str:
    """Return a digest of what numbers of processes are unique in: this boot of this machine, and the PID namespace."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        place = f"{boot} {os.readlink(_PROC / 'self/ns/pid')}"
    except OSError:
        # Without /proc: the network card, or a random number, which makes no other process known.
        place = str(uuid.getnode())
    return hashlib.sha256(place.encode()).hexdigest()[:12]


@cache
def _random() -> str:
    return uuid.uuid4().hex[:8]


def _start_of(process: int) -> str | None:
    """Return when a process started, in ticks since the boot; None where the system does not show it."""
    fields = _stat(process)
    return fields[19] if fields else None


def _has_exited(process: int) -> bool:
    """Whether only the exit status of a process is left, because its parent has not read it."""
    fields = _stat(process)
    try:
        # The first thread of a process may end before the others.
        return bool(fields) and fields[0] in "ZX" and len(os.listdir(_PROC / str(process) / "task")) <= 1
    except OSError:
        return False


def _stat(process: int) -> list[str]:
    """Return the fields of /proc/N/stat after the name, which may contain spaces and parentheses."""
    try:
        return (_PROC / str(process) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return []
