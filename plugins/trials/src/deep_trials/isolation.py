"""Processes that can be stopped whole, and where bubblewrap works see only what a trial may see."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from deep_core.plugin_api import find_program

__all__ = ["Ended", "View", "isolates", "run_alone"]

GRACE = 2.0
"""Seconds between asking a process to end and ending it."""
MAX_SAID = 64_000_000


@dataclass(frozen=True)
class View:
    """What a process sees of the disk, where it can be isolated; elsewhere it sees everything.

    Attributes:
        writable: folders that it may change; all others are read-only.
        hidden: folders that are empty for it, unless `writable` names something in them, and files that it cannot read.
            So is the folder for temporary files, where other trials are judged; the interpreter's folders and
            `readable` are seen also there.
        readable: further folders that it sees.
        network: whether it has the network.
        nests: whether it isolates processes of its own. Linux maps no root into a namespace within, so root has the id
            of a user there.
    """

    writable: Sequence[Path]
    hidden: Sequence[Path] = ()
    readable: Sequence[Path] = ()
    network: bool = True
    nests: bool = False


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        code: its exit code; negative for a signal.
        said: what it wrote to its pipe.
        timed_out: whether it was ended because of its time.
    """

    code: int
    said: bytes
    timed_out: bool


@cache
def isolates() -> str | None:
    """Return the program that isolates, if it works here; None if trials see the whole disk."""
    program = find_program("bwrap", outside=os.getcwd()) if sys.platform == "linux" else None
    if program is None or os.environ.get("DEEP_TRIALS_ISOLATION") == "off":
        return None
    words = [program, "--unshare-user", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    return program if subprocess.run(words, capture_output=True, check=False).returncode == 0 else None


def _isolated(argv: Sequence[str], view: View) -> list[str]:
    program = isolates()
    if program is None:
        return [*argv]
    words = [program, "--unshare-user", "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-drop", "ALL"]
    if view.nests and os.getuid() == 0:
        words += ["--uid", "1000", "--gid", "1000"]
    if not view.network:
        words.append("--unshare-net")
    words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
    temporary = os.path.realpath(tempfile.gettempdir())
    words += ["--tmpfs", temporary]
    seen = (sys.prefix, sys.base_prefix, *sys.path, *map(str, view.readable))
    for path in dict.fromkeys(os.path.realpath(each) for each in seen):
        if path.startswith(f"{temporary}{os.sep}") and os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path in view.hidden:
        words += ["--ro-bind", os.devnull, str(path)] if path.is_file() else ["--tmpfs", str(path)]
    for path in view.writable:
        words += ["--bind", str(path), str(path)]
    return [*words, "--", *argv]


async def run_alone(
    argv: Sequence[str], *, view: View, cwd: Path, env: Mapping[str, str], stdin: bytes, log: Path, seconds: float
) -> Ended:
    """Run a program, and end all of its processes with it.

    The number of the pipe on which it may speak takes the place of `{fd}` in `argv`. Its output goes to `log`.

    Raises:
        asyncio.CancelledError: the caller was cancelled; the processes are ended.
    """
    read_end, write_end = os.pipe()
    words = _isolated([word.replace("{fd}", str(write_end)) for word in argv], view)
    try:
        with log.open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *words,
                cwd=cwd,
                env=dict(env),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(write_end,),
                start_new_session=True,
            )
    finally:
        os.close(write_end)
    said = asyncio.ensure_future(_read(read_end))
    timed_out = False
    try:
        try:
            await asyncio.wait_for(process.communicate(stdin), seconds)
        except TimeoutError:
            timed_out = True
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(process.wait(), GRACE)
    finally:
        # Its group outlives it where something was left in the background.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        heard = await said
    return Ended(process.returncode or 0, heard, timed_out)


async def _read(pipe: int) -> bytes:
    """Read a pipe to its end, which is that of the last process that holds it."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=MAX_SAID)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(pipe, "rb"))
    try:
        return await reader.read()
    finally:
        transport.close()
