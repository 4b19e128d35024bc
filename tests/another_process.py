"""Another process of this environment, without the wait for third-party imports: a fork (tests.forked)."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.forked import nursery

__all__ = ["run"]


def run(
    program: str | Path,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run `python FILE ARGUMENTS…` (a path) or `python -c CODE ARGUMENTS…` (a text) in a process of its own.

    Args:
        program: a path or code.
        arguments: for its `sys.argv`.
        cwd: its working directory; None for this one's.
        env: its environment; None for this one's.
        stdin: what it reads.
        timeout: seconds.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was killed.
    """
    command = [sys.executable, *([str(program)] if isinstance(program, Path) else ["-c", program])]
    command += [str(argument) for argument in arguments]
    with tempfile.TemporaryFile() as in_, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        in_.write(stdin.encode())
        in_.seek(0)
        streams = (in_.fileno(), out.fileno(), err.fileno())
        process = nursery().start(
            Path(sys.prefix), command, cwd or Path.cwd(), os.environ if env is None else env, streams
        )
        try:
            code = process.wait(timeout)
        finally:
            process.kill()
        for file in (out, err):
            file.seek(0)
        return subprocess.CompletedProcess(command, code, out.read().decode(), err.read().decode())
