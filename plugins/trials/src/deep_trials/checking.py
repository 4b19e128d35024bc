"""What a `check.py` uses: the trial that it judges, and the agent's code in a process that knows no expected value."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Broken", "Call", "Trial", "call", "read", "run"]

PATIENCE = 6
"""Seconds on the clock for each of a processor: a busy machine fails nobody."""
_CALLER = """
import importlib, json, os, resource, sys
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[2]),) * 2)
out = os.fdopen(int(sys.argv[1]), "w")
os.set_inheritable(out.fileno(), False)
sys.path.insert(0, os.getcwd())
module, name, args, kwargs = json.load(sys.stdin)
value = importlib.import_module(module)
for part in name.split("."):
    value = getattr(value, part)
json.dump({"value": value(*args, **kwargs)}, out)
out.flush()
os._exit(0)
"""


_before: list[str] = []
"""Words before each program of the agent."""


def hide(tests: Path, program: str) -> None:
    """Hide the tests, and the process that judges, from the agent's code: by bubblewrap, where it works within itself.

    Args:
        tests: the folder that the code does not see.
        program: bubblewrap; "" for none.
    """
    shared = ["--unshare-user", "--unshare-pid", "--die-with-parent", "--cap-drop", "ALL", "--dev-bind", "/", "/"]
    words = [program, *shared, "--tmpfs", str(tests), "--"]
    if program and subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0:
        _before[:] = words


class Broken(Exception):
    """The agent's code failed, or returned what JSON has no word for."""


@dataclass(frozen=True)
class Call:
    """A call of a tool.

    Attributes:
        tool: the tool's name.
        args: its arguments.
        outcome: `success`, `failed`, `denied`, `retried`, or `lost` if it has no result.
        result: what the model read.
    """

    tool: str
    args: Mapping[str, Any]
    outcome: str
    result: str


@dataclass(frozen=True)
class Trial:
    """What an agent left behind.

    Attributes:
        workspace: a copy of its workspace.
        tests: the task's `tests/`, in a folder of its own.
        answer: its last words; "" without any.
        calls: the calls of its conversation, in order.
    """

    workspace: Path
    tests: Path
    answer: str
    calls: Sequence[Call] = field(default_factory=tuple[Call, ...])

    def used(self, tool: str) -> int:
        """Count the calls of a tool that succeeded."""
        return sum(each.tool == tool and each.outcome == "success" for each in self.calls)


def call(workspace: Path, function: str, *args: Any, seconds: float = 10.0, **kwargs: Any) -> Any:
    """Call `module:function` of the agent's code, in a process of its own, and return what it returns.

    The process has the arguments and not what the caller expects, so code that ends its process, patches a test tool
    or prints a result gains nothing.

    Args:
        workspace: the folder that the module is in.
        function: `module:function`, or `package.module:Class.method`.
        args: positional arguments; JSON.
        seconds: the most of a processor that it may take; on the clock it has PATIENCE times as long.
        kwargs: keyword arguments; JSON.

    Raises:
        Broken: it raised, ended its process, took too long, or returned no JSON.
    """
    module, _, name = function.partition(":")
    read_end, write_end = os.pipe()
    try:
        with subprocess.Popen(
            [*_before, sys.executable, "-I", "-B", "-c", _CALLER, str(write_end), str(math.ceil(seconds))],
            cwd=workspace,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            pass_fds=(write_end,),
            env=_environment(),
        ) as process:
            os.close(write_end)
            write_end = -1
            try:
                _, errors = process.communicate(
                    json.dumps([module, name, args, kwargs]).encode(), timeout=seconds * PATIENCE
                )
            except subprocess.TimeoutExpired:
                process.kill()
                raise Broken(f"{function} took more than {seconds * PATIENCE:g} s") from None
        with os.fdopen(read_end, "rb") as pipe:
            read_end = -1
            said = pipe.read()
    finally:
        for end in (read_end, write_end):
            if end >= 0:
                os.close(end)
    try:
        return json.loads(said)["value"]
    except (ValueError, KeyError, TypeError):
        lines = errors.decode(errors="replace").strip().splitlines()
        raise Broken(f"{function}: {lines[-1] if lines else 'its process ended without a result'}") from None


def run(workspace: Path, *argv: str, seconds: float = 20.0) -> subprocess.CompletedProcess[str]:
    """Run a program of the agent in its workspace; `python` is this interpreter, without site of the workspace.

    On the clock, it has PATIENCE times its seconds.

    Raises:
        Broken: it cannot be started, or takes too long.
    """
    words = [sys.executable, "-B", *argv[1:]] if argv[0] == "python" else [*argv]
    try:
        return subprocess.run(
            [*_before, *words],
            cwd=workspace,
            env=_environment(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds * PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Broken(f"{argv[0]}: {error}") from None


def read(workspace: Path, name: str, limit: int = 1_000_000) -> str:
    """Return the text of a file of the workspace; "" if there is none, it is no text, or it is too large."""
    path = workspace / name
    try:
        if path.stat().st_size > limit:
            return ""
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return ""


def _environment() -> dict[str, str]:
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "LANG", "TMPDIR", "SYSTEMROOT") if key in os.environ}
    return {**kept, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONNOUSERSITE": "1"}
