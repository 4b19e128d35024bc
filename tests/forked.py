"""Programs that do not wait for third-party imports: forks of a process that has made them, the forkserver's.

A program has its own process, arguments, folder, variables, streams, terminal and exit code, and finds the modules that
its environment has. What only a start can show is for `Environment.run`: which modules a program loads, what a broken
installation does to it, and variables that the interpreter reads, except PYTHONPATH.
"""

from __future__ import annotations

import atexit
import fcntl
import gc
import io
import multiprocessing
import os
import runpy
import signal
import site
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import process
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Forked", "run", "start"]

PRELOADED = [
    "click",
    "fastapi",
    "mcp.server.lowlevel",
    "openai.resources.chat.completions.completions",
    "opentelemetry.propagate",
    "prompt_toolkit.shortcuts",
    "psycopg_pool",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.openai",
    "rich.markdown",
    "uvicorn.protocols.http.auto",
]
"""Third-party modules that programs import, and what takes long of what these import."""


class Forked:
    """A running program: the parts of `subprocess.Popen` that tests use.

    Args:
        forked: its process.
    """

    def __init__(self, forked: ForkServerProcess) -> None:
        self._process, self.pid = forked, forked.pid or 0

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended."""
        self._process.join(timeout)
        if (code := self._process.exitcode) is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it ended meanwhile, and the forkserver reaped it
                os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.send_signal(signal.SIGKILL)


def start(
    prefix: Path, command: Sequence[str], cwd: Path, env: Mapping[str, str], streams: tuple[int, int, int]
) -> Forked:
    """Start `PYTHON …` of the environment that has this `sys.prefix`; on a terminal, where stdin is one.

    Of the interpreter's options it knows `-P`, `-m MODULE` and `-c CODE`.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    given = (str(prefix), [*command], str(cwd), dict(env))
    forked = context.Process(target=_become, args=given, kwargs={"streams": _Streams(streams)}, daemon=True)
    forked.start()
    return Forked(forked)


def run(
    prefix: Path, command: Sequence[str], cwd: Path, env: Mapping[str, str], text: str = "", timeout: float = 120
) -> tuple[int, str, str]:
    """Run one to its end, with a text on stdin; returns its exit code, stdout and stderr."""
    stdin, typed = os.pipe()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        try:
            os.write(typed, os.fsencode(text))
            os.close(typed)
            forked = start(prefix, command, cwd, env, (stdin, out.fileno(), err.fileno()))
        finally:
            os.close(stdin)
        try:
            code = forked.wait(timeout)
        finally:
            forked.kill()
        for file in (out, err):
            file.seek(0)
        return code, out.read().decode(), err.read().decode()


class _Streams:
    """Descriptors that are the same files in another process."""

    def __init__(self, numbers: tuple[int, int, int]) -> None:
        self.numbers = numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, tuple(DupFd(number) for number in self.numbers)


def _received(*duplicates: Any) -> list[int]:
    return [duplicate.detach() for duplicate in duplicates]


# -- in the fork -------------------------------------------------------------------------------------------------------


def _become(prefix: str, command: list[str], cwd: str, env: dict[str, str], *, streams: list[int]) -> None:
    """Set up this process like a new interpreter, run the program, and end."""
    gc.freeze()
    vars(process)["_current_process"], vars(process)["_parent_process"] = type(process.current_process())(), None
    for name in [name for name in sys.modules if name.partition(".")[0] in ("tests", "deep_core")]:
        del sys.modules[name]
    _take_streams(streams)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.orig_argv = command
    sys.executable = command[0]
    # Only the standard library stays of what the tests can import: the environment's site directory brings the rest.
    sys.path[:] = [path for path in sys.path if Path(path).is_relative_to(sys.base_prefix) and "-packages" not in path]
    sys.prefix = sys.exec_prefix = prefix
    site.PREFIXES = [sys.prefix, sys.exec_prefix]
    sys.modules.pop("sysconfig", None)  # it has read the prefix
    for folder in site.getsitepackages():
        site.addsitedir(folder)
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    _end_after(command[1:])


def _take_streams(streams: list[int]) -> None:
    os.setsid()  # what the program sends to its process group must not reach pytest
    if os.isatty(streams[0]):
        fcntl.ioctl(streams[0], termios.TIOCSCTTY, 0)  # so that Ctrl-C typed there is a signal
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    for number, name, errors in (
        (0, "stdin", "surrogateescape"),
        (1, "stdout", "surrogateescape"),
        (2, "stderr", "backslashreplace"),
    ):
        raw = os.fdopen(number, "wb" if number else "rb", closefd=False)
        stream = io.TextIOWrapper(raw, "utf-8", errors, line_buffering=number == 2 or os.isatty(number))
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _run_program(arguments: list[str]) -> None:
    """What `python ARGUMENTS…` runs, with its `sys.argv` and the first entry of its `sys.path`."""
    safe = arguments[0] == "-P"
    what, *rest = arguments[safe:]
    first = os.path.dirname(what) if what not in ("-m", "-c") else os.getcwd() if what == "-m" else ""
    if not safe:
        sys.path.insert(0, first)
    if what == "-m":
        sys.argv = rest
        runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
    elif what == "-c":
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(rest[0], "<string>", "exec", dont_inherit=True), vars(main))
    else:
        sys.argv = [what, *rest]
        runpy.run_path(what, run_name="__main__")


def _end_after(arguments: list[str]) -> None:
    """Run a program and end as an interpreter does, except that the system gets the memory back as it is.

    To free all that was loaded before the fork takes longer than most of these programs.
    """
    code = 0
    try:
        _run_program(arguments)
    except SystemExit as ended:
        if isinstance(ended.code, int | None):
            code = ended.code or 0
        else:
            print(ended.code, file=sys.stderr)
            code = 1
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
        if isinstance(error, KeyboardInterrupt):
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            if not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            code = code or 120
    os._exit(code & 0xFF)
