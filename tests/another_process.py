"""Another process without the wait for its imports: forked from one that has loaded third-party packages, none of ours.

It is another process in all that a test of one is about: memory, working directory, environment, standard streams and
exit code are its own, nothing is shared after the fork, and it ends as an interpreter ends. Its interpreter was started
before: where the start, an import, or a variable that the interpreter itself reads (PYTHONHASHSEED) is what a test is
about, start one with `subprocess`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import IO, Any

__all__ = ["end_after", "run"]

LOADED = (
    "anthropic.resources.messages.messages",
    "anyio._backends._asyncio",
    "concurrent.futures.thread",
    "genai_prices.data",
    "openai.resources.chat.completions.completions",
    "opentelemetry.propagate",
    "platformdirs",
    "pluggy",
    "pydantic_ai",
    "pydantic_ai.models.anthropic",
    "pydantic_ai.models.function",
    "pydantic_ai.models.openai",
    "pydantic_ai.models.test",
)
"""What is there already: what every process with an agent and a provider loads, for a second or more."""
STREAMS = ((os.O_RDONLY, "stdin"), (os.O_WRONLY, "stdout"), (os.O_WRONLY, "stderr"))


def run(
    program: str | Path,
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
    timeout: float = 120,
) -> subprocess.CompletedProcess[str]:
    """Run `python FILE ARGUMENTS…` (a path) or `python -c CODE ARGUMENTS…` (a text) in a process of its own.

    Args:
        program: a path or code.
        arguments: for its `sys.argv`.
        cwd: its working directory; None for this one's.
        env: its environment; None for this one's. Of the variables that the interpreter reads, PYTHONPATH counts.
        stdin: what it reads.
        timeout: seconds.

    Raises:
        subprocess.TimeoutExpired: it took longer, and was killed.
    """
    variables = dict(os.environ if env is None else env)
    words = [str(argument) for argument in arguments]
    if not hasattr(os, "fork"):
        command = [sys.executable, *([program] if isinstance(program, Path) else ["-c", program]), *words]
        return subprocess.run(
            command, cwd=cwd, env=variables, input=stdin, capture_output=True, encoding="utf-8", timeout=timeout
        )
    with tempfile.TemporaryDirectory() as folder:
        files = {name: Path(folder) / name for _, name in STREAMS}
        for path in files.values():
            path.write_text(stdin if path.name == "stdin" else "", encoding="utf-8")
        request = {
            "path": str(program) if isinstance(program, Path) else None,
            "code": program if isinstance(program, str) else "",
            "arguments": words,
            "cwd": str(cwd or Path.cwd()),
            "env": variables,
            "streams": {name: str(path) for name, path in files.items()},
        }
        code = _STARTER.ask(request, timeout)
        out, err = (files[name].read_text(encoding="utf-8") for name in ("stdout", "stderr"))
    return subprocess.CompletedProcess([str(program), *words], code, out, err)


class _Starter:
    """The process that is forked: one for each process that runs tests, started when it is first needed."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def ask(self, request: Mapping[str, Any], timeout: float) -> int:
        """The exit code of a new child."""
        with self._lock, ExitStack() as killed:
            process = self._process = self._process or _start()
            killed.callback(self._kill)
            requests, answers = _pipes(process)
            requests.write(json.dumps(request).encode() + b"\n")
            requests.flush()
            if not select.select([answers], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(request["path"] or request["code"], timeout)
            answer = answers.readline()
            if not answer:
                raise AssertionError(f"the process that is forked has ended: {process.wait()}")
            killed.pop_all()
            return int(answer)

    def stop(self) -> None:
        """Let it end."""
        if self._process is not None:
            for pipe in _pipes(self._process):
                pipe.close()
            self._process.wait()

    def _kill(self) -> None:
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)  # with the child that it waits for
            self.stop()
            self._process = None


_STARTER = _Starter()
atexit.register(_STARTER.stop)


def _start() -> subprocess.Popen[bytes]:
    from tests.environments import KEPT

    variables = {key: os.environ[key] for key in KEPT if key in os.environ}
    return subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**variables, "PYTHONUTF8": "1", "PYDANTIC_AI_NO_BANNER": "1"},
        start_new_session=True,
    )


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


# -- in the process that is forked -------------------------------------------------------------------------------------


def _wait_for_request() -> dict[str, Any]:
    """Fork a child for each line of the standard input. Returns in the child, with its request."""
    for name in LOADED:
        importlib.import_module(name)
    assert threading.active_count() == 1
    gc.collect()
    gc.freeze()  # a collection in a child leaves all this alone, and its pages shared
    while line := sys.stdin.buffer.readline():
        child = os.fork()
        if child == 0:
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(status))
    sys.exit()


def _become(request: Mapping[str, Any]) -> None:
    """Be the process that was asked for, and run its program."""
    for number, (flags, name) in enumerate(STREAMS):
        stream = os.open(request["streams"][name], flags)
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    path = request["path"]
    further = os.environ.get("PYTHONPATH", "")
    sys.path[:1] = [os.path.dirname(path) if path else "", *filter(None, further.split(os.pathsep))]
    sys.argv = [path or "-c", *request["arguments"]]
    if path:
        end_after(lambda: runpy.run_path(path, run_name="__main__"))
    else:
        main = sys.modules["__main__"] = ModuleType("__main__")
        code = compile(request["code"], "<string>", "exec", dont_inherit=True)
        end_after(lambda: exec(code, vars(main)))


def end_after(program: Callable[[], object]) -> None:
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
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):
        sys.exit(code)  # which says that they are closed or broken
    os._exit(code & 0xFF)


if __name__ == "__main__":
    _become(_wait_for_request())
