"""Another process of this environment, without the wait for third-party imports: a fork (tests.forked)."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests import forked

__all__ = ["Started", "run", "start"]


class Started(subprocess.Popen[Any]):
    """A `Popen` whose child is a fork: of subprocess, it replaces how a child starts and how its end is seen."""

    def _execute_child(  # type: ignore[override]
        self,
        args: list[str],
        executable: None,
        preexec_fn: None,
        close_fds: bool,
        pass_fds: tuple[()],
        cwd: Path | None,
        env: Mapping[str, str] | None,
        startupinfo: None,
        creationflags: int,
        shell: bool,
        p2cread: int,
        p2cwrite: int,
        c2pread: int,
        c2pwrite: int,
        errread: int,
        errwrite: int,
        *rest: object,
    ) -> None:
        given = (p2cread, c2pwrite, errwrite)
        first, second, third = (number if stream == -1 else stream for number, stream in enumerate(given))
        try:
            variables = os.environ if env is None else env
            self._forked = forked.start(Path(sys.prefix), args, cwd or Path.cwd(), variables, (first, second, third))
            self.pid = self._forked.pid
            self._child_created = True
        finally:
            self._close_pipe_fds(p2cread, p2cwrite, c2pread, c2pwrite, errread, errwrite)  # type: ignore[attr-defined]

    def _internal_poll(self, *_: object, **__: object) -> int | None:
        self.returncode = self._forked.poll()
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        self.returncode = self._forked.wait(timeout)
        return self.returncode


def start(*arguments: str | Path, **how: Any) -> Started:
    """Start `python ARGUMENTS…` in a process of its own.

    Args:
        arguments: `-m MODULE`, `-c CODE` or a path, and the program's arguments.
        how: `cwd`, `env`, the streams and their encoding, as for `subprocess.Popen`.
    """
    return Started([sys.executable, *map(str, arguments)], **how)


def run(
    program: str | Path,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run `python FILE ARGUMENTS…` (a path), `python -m MODULE …` (a dotted name) or `python -c CODE …` to its end.

    Args:
        program: a path, the name of a module or code.
        arguments: for its `sys.argv`.
        cwd: its working directory; None for this one's.
        env: its environment; None for this one's.
        stdin: what it reads.
        timeout: seconds.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was killed.
    """
    option = [] if isinstance(program, Path) else ["-m" if program.replace(".", "").isidentifier() else "-c"]
    pipe = subprocess.PIPE
    with start(
        *option,
        program,
        *arguments,
        cwd=cwd,
        env=env,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        encoding="utf-8",
    ) as process:
        try:
            out, err = process.communicate(stdin, timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)
