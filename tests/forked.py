"""Programs of an environment without the wait for third-party imports: forks of one process that has made them.

A program has its own process, arguments, folder, variables, streams, terminal and exit code, and it imports what is
ours anew, from its environment's site directory. What only a start can show is for `Environment.run`: which modules a
program loads, and what a broken installation does to it.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import io
import json
import os
import runpy
import select
import signal
import site
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.another_process import end_after

__all__ = ["Forked", "Nursery", "nursery"]

PRELOADED = (
    "anyio._backends._asyncio", "asyncio", "click", "concurrent.futures.thread", "encodings.idna", "genai_prices.data",
    "importlib_metadata", "jiter", "openai", "openai.lib.streaming.chat", "openai.pagination",
    "openai.resources.chat.completions.completions", "packaging.requirements", "platformdirs", "pluggy",
    "prompt_toolkit", "prompt_toolkit.shortcuts", "pydantic_ai", "pydantic_ai.models.openai", "pydantic_ai.models.test",
    "pydantic_ai.providers.openai", "pydantic_ai.workspaces", "rich.console", "rich.markdown",
)  # fmt: skip
"""Modules that programs import."""


class Forked:
    """A running program: the parts of `subprocess.Popen` that tests and programs use.

    Args:
        pid: its process.
        ended: is at its end when the process is.
        nursery: whose child it is.
    """

    def __init__(self, pid: int, ended: int, nursery: Line) -> None:
        self.pid, self._ended, self._nursery = pid, ended, nursery
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._look(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when it has ended."""
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, if it has not ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self._code is None and select.select([self._ended], [], [], timeout)[0]:
            self._code = self._nursery.ask({"wait": self.pid})
            os.close(self._ended)
        return self._code


class Line:
    """A connection to the process whose forks the programs are.

    Args:
        control: this end of it.
    """

    def __init__(self, control: socket.socket) -> None:
        self._control, self._lock = control, threading.Lock()

    def close(self) -> None:
        """Close this end."""
        self._control.close()

    def ask(self, what: Mapping[str, Any], descriptors: list[int] | None = None) -> int:
        """Send a request; return the answer."""
        with self._lock:
            socket.send_fds(self._control, [json.dumps(what).encode() + b"\n"], descriptors or [])
            return int(self._control.recv(20))

    def start(
        self,
        root: Path,
        command: list[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
        own_session: bool = False,
    ) -> Forked:
        """Start `PYTHON …` of the environment in `root`; on a terminal, where stdin is one.

        Of the interpreter's options it knows `-P`, `-m MODULE` and `-c CODE`.
        """
        ended, alive = os.pipe()
        job = {
            "root": str(root),
            "command": command,
            "cwd": str(cwd),
            "env": dict(env),
            "own_session": own_session,
        }
        try:
            return Forked(self.ask(job, [*streams, alive]), ended, self)
        finally:
            os.close(alive)

    def run(
        self, root: Path, command: list[str], cwd: Path, env: Mapping[str, str], text: str = "", timeout: float = 120
    ) -> tuple[int, str, str]:
        """Run one to its end, with a text on stdin; returns its exit code, stdout and stderr."""
        stdin, typed = os.pipe()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                os.write(typed, os.fsencode(text))
                os.close(typed)
                process = self.start(root, command, cwd, env, (stdin, out.fileno(), err.fileno()))
            finally:
                os.close(stdin)
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            for file in (out, err):
                file.seek(0)
            return code, out.read().decode(), err.read().decode()


class Nursery(Line):
    """The process whose forks the programs are.

    Args:
        python: the interpreter of an environment without plugins.
        root: the folder of that environment, for which a program gets that of its own.
        env: the variables that the imports see.
    """

    def __init__(self, python: Path, root: Path, env: Mapping[str, str]) -> None:
        control, there = socket.socketpair()
        super().__init__(control)
        with there:
            self._process = subprocess.Popen(
                [str(python), "-P", __file__, str(there.fileno()), str(root)],
                env=dict(env),
                stdin=subprocess.DEVNULL,
                pass_fds=[there.fileno()],
                start_new_session=True,
            )

    def close(self) -> None:
        """End it."""
        super().close()
        self._process.wait(60)


@cache
def nursery() -> Nursery:
    """The one of this process, started when it is first needed."""
    from tests.environments import Environment

    folder = tempfile.TemporaryDirectory(prefix="nursery-")
    environment = Environment.create(Path(folder.name))
    found = Nursery(environment.python, environment.root, environment.variables())
    atexit.register(folder.cleanup)
    atexit.register(found.close)
    return found


# -- in the process whose forks the programs are -----------------------------------------------------------------------


def _serve(control: socket.socket) -> tuple[dict[str, Any], list[int], socket.socket]:
    """Answer requests of the tests and of the programs; return in a fork, with its job, descriptors and connection."""
    open_lines = [control]
    while True:
        for line in select.select(open_lines, [], [])[0]:
            try:
                data, descriptors, _, _ = socket.recv_fds(line, 1 << 16, 4)
            except ConnectionResetError:  # the program was killed before it read its last answer
                data, descriptors = b"", []
            while data and not data.endswith(b"\n"):
                data += line.recv(1 << 16)
            if not data:
                if line is control:
                    sys.exit()  # the tests have ended
                open_lines.remove(line)
                line.close()
                continue
            job = json.loads(data)
            if "wait" in job:
                _, status = os.waitpid(job["wait"], 0)
                answer = os.waitstatus_to_exitcode(status)
            else:
                ours, of_the_program = socket.socketpair()
                answer = os.fork()
                if answer == 0:
                    for other in (*open_lines, ours):
                        other.close()
                    return job, descriptors, of_the_program
                of_the_program.close()
                open_lines.append(ours)
                for descriptor in descriptors:
                    os.close(descriptor)
            with contextlib.suppress(BrokenPipeError):  # the program was killed meanwhile
                line.send(str(answer).encode())


class _Popen(subprocess.Popen[Any]):
    """Forks what a program starts of this interpreter's modules without streams; starts anything else as ever."""

    line: Line
    root: Path

    def __new__(cls, args: Any, **how: Any) -> Any:
        quiet = {how.get(name) for name in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}
        if not (quiet and how.get("start_new_session") and args[:3] == [sys.executable, "-P", "-m"]):
            return super().__new__(cls)
        with open(os.devnull, "r+b") as null:
            streams = (null.fileno(), null.fileno(), null.fileno())
            return cls.line.start(cls.root, args, Path.cwd(), how.get("env", os.environ), streams, own_session=True)


def _become(job: dict[str, Any], descriptors: list[int], root: str) -> None:
    """Set up this process like a new interpreter."""
    terminal = os.isatty(descriptors[0])
    if terminal or job["own_session"]:
        os.setsid()
    if terminal:
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)  # so that Ctrl-C typed there is a signal
    for number, descriptor in enumerate(descriptors[:3]):
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
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.orig_argv = job["command"]
    sys.executable = job["command"][0]
    # What this environment's site directory brought goes: its own brings it again, or has a kernel of its own.
    sites = [Path(folder) for folder in site.getsitepackages()]
    brought = {line for folder in sites for file in folder.glob("*.pth") for line in file.read_text().splitlines()}
    sys.path[:] = [path for path in sys.path if path not in brought and Path(path) not in sites]
    sys.prefix = sys.prefix.replace(root, job["root"])
    sys.exec_prefix = sys.exec_prefix.replace(root, job["root"])
    site.PREFIXES = [sys.prefix, sys.exec_prefix]
    sys.path_importer_cache.clear()
    sys.modules.pop("sysconfig", None)  # it has read the prefix
    for folder in site.getsitepackages():
        site.addsitedir(folder)


def _program(arguments: list[str]) -> Callable[[], object]:
    """What `python ARGUMENTS…` runs, with its `sys.argv` and the first entry of its `sys.path`."""
    safe = arguments[0] == "-P"
    what, *rest = arguments[safe:]
    if what == "-m":
        module, sys.argv = rest[0], rest
        first, program = os.getcwd(), lambda: runpy.run_module(module, run_name="__main__", alter_sys=True)
    elif what == "-c":
        code = compile(rest[0], "<string>", "exec", dont_inherit=True)
        sys.argv = ["-c", *rest[1:]]
        main = sys.modules["__main__"] = ModuleType("__main__")
        first, program = "", lambda: exec(code, vars(main))
    else:
        sys.argv = [what, *rest]
        first, program = os.path.dirname(what), lambda: runpy.run_path(what, run_name="__main__")
    if not safe:
        sys.path.insert(0, first)
    return program


def _main() -> None:
    for name in PRELOADED:
        import_module(name)
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from pydantic_ai import ConversationTypeAdapter, ModelMessagesTypeAdapter

    for answer in (ChatCompletion, ChatCompletionChunk):
        answer.model_rebuild()  # what the first answer would wait for
    for stored in (ConversationTypeAdapter, ModelMessagesTypeAdapter):
        stored.rebuild()  # and the first chat that is stored
    ours = [name for name in sys.modules if name.partition(".")[0].startswith("deep_")]
    if ours:
        raise AssertionError(f"imported before an environment is known: {ours}")
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as control:
        job, descriptors, line = _serve(control)
    _become(job, descriptors, sys.argv[2])
    _Popen.line, _Popen.root = Line(line), Path(job["root"])
    subprocess.Popen = _Popen
    end_after(_program(job["command"][1:]))


if __name__ == "__main__":
    _main()
