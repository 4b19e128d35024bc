"""Programs of an environment without the wait for third-party imports: forks of one process that has made them.

A program has its own process, arguments, folder, variables, streams, terminal and exit code. Modules of ours are those
of its environment: the fork keeps the imported ones if the environment's files are the same, and drops them otherwise.
What only a start can show is for `Environment.run`: which modules a program loads, what a broken installation does to
it, and variables that the interpreter reads, except PYTHONPATH.

One process serves all workers of a run of pytest: to make the imports costs two seconds.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import gc
import importlib.util
import io
import json
import os
import re
import runpy
import select
import shutil
import signal
import site
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["Forked", "Line", "nursery", "relayed"]

PRELOADED = (
    "anthropic.resources.messages.messages", "anyio._backends._asyncio", "asyncio", "click",
    "concurrent.futures.thread", "encodings.ascii", "encodings.idna", "encodings.utf_8_sig", "genai_prices.data",
    "importlib_metadata", "jiter", "mcp.server.lowlevel", "mcp.server.stdio", "openai", "openai.lib.streaming.chat",
    "openai.pagination", "openai.resources.chat.chat", "openai.resources.chat.completions.completions",
    "opentelemetry.propagate", "packaging.requirements", "platformdirs", "pluggy", "prompt_toolkit",
    "prompt_toolkit.patch_stdout", "prompt_toolkit.shortcuts", "pydantic_ai", "pydantic_ai.models.anthropic",
    "pydantic_ai.models.function", "pydantic_ai.models.openai", "pydantic_ai.models.test",
    "pydantic_ai.providers.openai", "pydantic_ai.workspaces", "rich.console", "rich.markdown", "tomllib",
)  # fmt: skip
"""Third-party modules that programs import."""
OURS = (
    "deep_backends.factories", "deep_backends.local", "deep_backends.memory", "deep_backends.options",
    "deep_cli.built_in", "deep_cli.chat.command", "deep_cli.chat.prompt", "deep_cli.chat.start", "deep_cli.main",
    "deep_cli.plugins.advice", "deep_cli.plugins.contributed", "deep_cli.plugins.installing.distributions",
    "deep_cli.plugins.installing.spec", "deep_cli.plugins.listing", "deep_cli.plugins.warnings", "deep_cli.run.command",
    "deep_cli.run.piped", "deep_cli.run.runner", "deep_cli.run.stored", "deep_cli.run.watch",
    "deep_core.agent.assemble", "deep_core.agent.explain", "deep_core.agent.kernel", "deep_core.agent.spec",
    "deep_core.agent.tools.assembly", "deep_filesystem.operations", "deep_filesystem.sessions", "deep_filesystem.slot",
    "deep_filesystem.toolset", "deep_sessions.commands", "deep_sessions.honoring", "deep_sessions.hookspecs",
    "deep_sessions.runner", "deep_sessions.stores.sqlite", "deep_subagents.toolset", "deep_todo.toolset",
    "entry_point_index.metadata", "entry_point_index.origin",
)  # fmt: skip
"""Modules of this repository that most programs import, with what these import."""
REPOSITORY = Path(__file__).resolve().parent.parent
LOCK = "lock"


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
        prefix: Path,
        command: list[str],
        cwd: Path,
        env: Mapping[str, str],
        streams: tuple[int, int, int],
        own_session: bool = False,
        preloaded: Sequence[str] = (),
    ) -> Forked:
        """Start `PYTHON …` of the environment that has this `sys.prefix`; on a terminal, where stdin is one.

        Of the interpreter's options it knows `-P`, `-m MODULE` and `-c CODE`. The third-party modules `preloaded` are
        imported first, for this and all later programs.
        """
        ended, alive = os.pipe()
        job = {
            "prefix": str(prefix),
            "command": command,
            "cwd": str(cwd),
            "env": dict(env),
            "own_session": own_session,
            "preloaded": preloaded,
        }
        try:
            return Forked(self.ask(job, [*streams, alive]), ended, self)
        finally:
            os.close(alive)

    def run(
        self, prefix: Path, command: list[str], cwd: Path, env: Mapping[str, str], text: str = "", timeout: float = 120
    ) -> tuple[int, str, str]:
        """Run one to its end, with a text on stdin; returns its exit code, stdout and stderr."""
        stdin, typed = os.pipe()
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            try:
                os.write(typed, os.fsencode(text))
                os.close(typed)
                process = self.start(prefix, command, cwd, env, (stdin, out.fileno(), err.fileno()))
            finally:
                os.close(stdin)
            try:
                code = process.wait(timeout)
            finally:
                process.kill()
            for file in (out, err):
                file.seek(0)
            return code, out.read().decode(), err.read().decode()


def relayed(*arguments: str | Path) -> list[str]:
    """The command of a program `python FILE …` that is a fork, for what starts programs by itself (tests.relay)."""
    nursery()
    relay = [Path(__file__).with_name("relay.py"), _folder() / "socket"]
    return [sys.executable, "-I", "-S", *map(str, [*relay, sys.prefix, sys.executable, *arguments])]


def _folder() -> Path:
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))
    return Path(tempfile.gettempdir(), f"deep-nursery-{run}")


@cache
def nursery() -> Line:
    """The connection of this process, which starts what it connects to if none of the run's other processes has."""
    folder = _folder()
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        with (folder / LOCK).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not os.fstat(lock.fileno()).st_nlink:
                continue  # what served others has ended, and removed the folder
            if not (folder / "socket").exists():
                atexit.register(_start(folder).wait, 60)
            control = socket.socket(socket.AF_UNIX)
            try:
                control.connect(str(folder / "socket"))
            except ConnectionRefusedError:  # a run that was killed had this number
                control.close()
                shutil.rmtree(folder)
                continue
        found = Line(control)
        atexit.register(found.close)  # before the wait for the end
        return found


def _start(folder: Path) -> subprocess.Popen[bytes]:
    from tests.environments import Environment

    environment = Environment.create(folder)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        listener.listen()
        return subprocess.Popen(
            [str(environment.python), "-P", __file__, str(listener.fileno()), str(folder)],
            env=environment.variables(),
            stdin=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            start_new_session=True,
        )


# -- in the process whose forks the programs are -----------------------------------------------------------------------


def _serve(listener: socket.socket, folder: Path) -> tuple[dict[str, Any], list[int], socket.socket]:
    """Answer requests of tests and programs; return in a fork, with its job, descriptors and connection."""
    tests, programs, relayed = list[socket.socket](), list[socket.socket](), dict[socket.socket, int]()
    while True:
        found = select.select([listener, *tests, *programs], [], [], None if tests else 0.1)[0]
        if not tests and listener not in found:
            _end_unless_asked(listener, folder)
        for line in found:
            if line is listener:
                tests.append(listener.accept()[0])
                continue
            try:
                data, descriptors, _, _ = socket.recv_fds(line, 1 << 16, 4)
            except ConnectionResetError:  # killed before it read its last answer
                data, descriptors = b"", []
            while data and not data.endswith(b"\n"):
                data += line.recv(1 << 16)
            if not data:
                (tests if line in tests else programs).remove(line)
                line.close()
                if line in relayed:  # what would wait for it was killed
                    number = relayed.pop(line)
                    os.kill(number, signal.SIGKILL)
                    os.waitpid(number, 0)
                continue
            job = json.loads(data)
            if "wait" in job:
                _, status = os.waitpid(job["wait"], 0)
                relayed.pop(line, None)
                answer = os.waitstatus_to_exitcode(status)
            else:
                _preload(job.get("preloaded", ()))
                ours, of_the_program = socket.socketpair()
                answer = os.fork()
                if answer == 0:
                    for other in (listener, ours, *tests, *programs):
                        other.close()
                    return job, descriptors, of_the_program
                if job.get("relayed"):
                    relayed[line] = answer
                of_the_program.close()
                programs.append(ours)
                for descriptor in descriptors:
                    os.close(descriptor)
            with contextlib.suppress(BrokenPipeError):  # killed meanwhile
                line.send(str(answer).encode())


def _preload(names: Sequence[str]) -> None:
    if any(name not in sys.modules for name in names):
        for name in names:
            import_module(name)
        gc.freeze()


@dataclass(frozen=True)
class _Package:
    """A package of ours that is imported.

    Attributes:
        folder: where it is in the checkout.
        sources: module -> its path below the folder, and its text.
        imports: the packages of ours that it imports with itself.
    """

    folder: str
    sources: Mapping[str, tuple[str, bytes]]
    imports: set[str]

    def found(self, name: str) -> str | None:
        """The folder where this environment has the package, if it has the same."""
        spec = PathFinder.find_spec(name)
        folder = os.path.dirname(spec.origin or "") if spec else ""
        if folder == self.folder:
            return folder
        for path, text in self.sources.values():
            try:
                with open(os.path.join(folder, path), "rb") as file:
                    if file.read() != text:
                        return None
            except OSError:
                return None
        return folder

    def move(self, folder: str) -> None:
        """Make the imported modules those of this folder."""
        for name, (path, _) in self.sources.items():
            module = sys.modules[name]
            inside = [os.path.dirname(os.path.join(folder, path))] if hasattr(module, "__path__") else None
            file = os.path.join(folder, path)
            spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
            assert spec is not None
            module.__spec__, module.__loader__, module.__file__ = spec, spec.loader, file
            if inside is not None:
                module.__path__ = inside


def _import_ours() -> dict[str, _Package]:
    """Import `OURS` from the checkout; return all packages of ours that are imported, by name."""
    places = [str(REPOSITORY), *map(str, REPOSITORY.glob("plugins/*/src"))]
    ours = {path.name: path for place in places for path in Path(place).iterdir() if (path / "__init__.py").exists()}
    before = [*sys.path]
    sys.path[:0] = places
    for name in OURS:
        import_module(name)
    sys.path[:] = before
    sources = defaultdict[str, dict[str, tuple[str, bytes]]](dict)
    for name, module in sys.modules.items():
        if (folder := ours.get(package := name.partition(".")[0])) and module.__file__:
            file = Path(module.__file__)
            sources[package][name] = (str(file.relative_to(folder)), file.read_bytes())
    return {
        package: _Package(str(ours[package]), files, _imports(files.values()) & ours.keys())
        for package, files in sources.items()
    }


def _imports(sources: Iterable[tuple[str, bytes]]) -> set[str]:
    """The packages that modules import when they are imported themselves."""
    return {name for _, text in sources for name in re.findall(r"^(?:import|from) (\w+)", text.decode(), re.MULTILINE)}


def _keep_what_is_the_same(packages: Mapping[str, _Package]) -> None:
    """Make modules of ours those of this environment; drop those that it does not have, or has otherwise."""
    kept = {name: folder for name, package in packages.items() if (folder := package.found(name))}
    while lost := [name for name in kept if not packages[name].imports <= kept.keys()]:
        for name in lost:
            del kept[name]
    for name, package in packages.items():
        if name not in kept:
            for module in package.sources:
                del sys.modules[module]
        elif kept[name] != package.folder:
            package.move(kept[name])
    if index := sys.modules.get("entry_point_index.cache"):
        vars(index)["STARTED"] = time.time_ns()  # it tells a file of before this process from one of after


def _end_unless_asked(listener: socket.socket, folder: Path) -> None:
    """End, with the folder. Tests connect while they have the lock."""
    with (folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if not select.select([listener], [], [], 0)[0]:
            shutil.rmtree(folder)
            sys.exit()


class _Popen(subprocess.Popen[Any]):
    """Forks what a program starts of this interpreter's modules without streams; starts anything else as ever."""

    line: Line

    def __new__(cls, args: Any, **how: Any) -> Any:
        quiet = {how.get(name) for name in ("stdin", "stdout", "stderr")} == {subprocess.DEVNULL}
        if not (quiet and how.get("start_new_session") and args[:3] == [sys.executable, "-P", "-m"]):
            return super().__new__(cls)
        with open(os.devnull, "r+b") as null:
            streams = (null.fileno(), null.fileno(), null.fileno())
            return cls.line.start(
                Path(sys.prefix), args, Path.cwd(), how.get("env", os.environ), streams, own_session=True
            )


def _become(job: dict[str, Any], descriptors: list[int]) -> None:
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
    sys.prefix = sys.exec_prefix = job["prefix"]
    site.PREFIXES = [sys.prefix, sys.exec_prefix]
    sys.modules.pop("sysconfig", None)  # it has read the prefix
    for folder in site.getsitepackages():
        site.addsitedir(folder)
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))


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
    _preload(PRELOADED)
    packages = _import_ours()
    from deep_sessions.entries import _KINDS  # pyright: ignore[reportPrivateUsage]
    from openai.types.chat import ChatCompletion, ChatCompletionChunk
    from pydantic_ai import ConversationTypeAdapter, ModelMessagesTypeAdapter

    for answer in (ChatCompletion, ChatCompletionChunk):
        answer.model_rebuild()  # what the first answer would wait for
    entries = _KINDS.values()
    for stored in (ConversationTypeAdapter, ModelMessagesTypeAdapter, *entries):
        stored.rebuild()  # and the first chat that is stored
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as listener:
        job, descriptors, line = _serve(listener, Path(sys.argv[2]))
    _become(job, descriptors)
    _Popen.line = Line(line)
    subprocess.Popen = _Popen
    program = _program(job["command"][1:])
    _keep_what_is_the_same(packages)
    _end_after(program)


def _end_after(program: Callable[[], object]) -> None:
    """Run a program and end as an interpreter does, except that the system gets the memory back as it is.

    To free all that was loaded before the fork takes longer than most of these programs. An interpreter that ends with
    an exception, or that cannot write what is in its streams, does it all the same.
    """
    code = 0
    try:
        program()
    except SystemExit as ended:
        if not isinstance(ended.code, int | None):
            raise  # a text, for stderr
        code = ended.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        sys.exit(code)  # which says that they are closed or broken
    os._exit(code & 0xFF)


if __name__ == "__main__":
    _main()
