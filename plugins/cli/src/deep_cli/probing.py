"""Probes, seen from the parent: a child process with a time limit tries what could end or hang this one."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from deep_core.index import Candidate
from deep_core.kernel import Survey

from .screen import one_line

__all__ = ["Outcome", "Probe", "end", "workers"]

PHASES = {
    "start": "could not be probed",
    "import": "{what} while it is imported",
    "agent": "{what} while an agent is assembled",
    "model": "{what} while the model is made",
    "exit": "{what} after all was done",
}
"""What the child last said it was doing -> what is told of an end there."""


@dataclass(frozen=True)
class Outcome:
    """What a probe found.

    Attributes:
        problem: what went wrong, as the end of a sentence; "" where nothing did.
        ended: whether the child was ended, or ended itself, before it was done.
        data: what the child measured.
    """

    problem: str
    ended: bool = False
    data: dict[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Probe:
    """One job for a child process; `deep_cli.probe` does it."""

    job: dict[str, Any]

    @classmethod
    def of_plugin(cls, candidate: Candidate, found: Survey, config: Path | None) -> Probe:
        """Load one plugin with what it requires, call its hooks, assemble an agent of that."""
        by_distribution = {_canonical(c.record.distribution): c for c in found.candidates if c.record.distribution}
        allowed: dict[str, None] = {}
        waiting = [_canonical(candidate.record.distribution), *(_canonical(name) for name, _ in found.lists.require)]
        # A required entry may be a plugin's name instead of its distribution's.
        waiting += [
            _canonical(c.record.distribution)
            for c in found.candidates
            if c.record.name in {name for name, _ in found.lists.require}
        ]
        while waiting:
            name = waiting.pop()
            if name in by_distribution and name not in allowed:
                allowed[name] = None
                waiting.extend(by_distribution[name].requires)
        return cls({"plugin": candidate.record.name, "allow": list(allowed), "config": _text(config)})

    @classmethod
    def of_agent(cls, config: Path | None, model: str | None, backend: str | None) -> Probe:
        """Assemble the agent of all plugins, make its backend and its model; no request is sent."""
        return cls({"plugin": None, "config": _text(config), "model": model, "backend": backend})

    def run(self, seconds: float) -> Outcome:
        """Do it, for at most so many seconds."""
        try:
            place = tempfile.TemporaryDirectory(prefix="deep-doctor-")
        except OSError as error:
            return Outcome(f"could not be probed: no folder for temporary files can be written ({error})", ended=True)
        with place as folder:
            out = Path(folder, "out.jsonl")
            job = json.dumps({**self.job, "out": str(out)})
            # -P: the current directory is not searched for modules, as it is not for the command itself.
            command = [sys.executable, "-P", "-m", "deep_cli.probe", job]
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # so that what the plugin started can be ended with it
            )
            try:
                code: int | None = child.wait(seconds)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                end(child)
            return _read(out, code, seconds)


def workers() -> int:
    """How many probes run side by side: more would slow down the imports that are measured."""
    return max(1, min(4, os.cpu_count() or 1))


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child that has a session of its own, with all that it started there."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it and all it started are gone
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def _read(out: Path, code: int | None, seconds: float) -> Outcome:
    phase, data = "start", dict[str, Any]()
    lines = out.read_text(encoding="utf-8").splitlines(keepends=True) if out.exists() else []
    for line in lines:
        if not line.endswith("\n"):
            break  # the process ended in the middle of it
        said = cast("dict[str, Any]", json.loads(line))
        phase = said.pop("phase", phase)
        data.update(said)
    if data.get("finished"):
        # What went wrong before is more telling than how the process ended then.
        if data.get("problem") or code == 0:
            return Outcome(str(data.get("problem", "")), data=data)
        phase = "exit"
    if code is None:
        what = f"hangs (stopped after {seconds:g} s)"
    elif code < 0:
        what = f"is killed by {signal.Signals(-code).name}"
    else:
        what = f"ends the process (exit code {code})"
    text = PHASES.get(phase, PHASES["start"]).format(what=what)
    return Outcome(one_line(text, 200), ended=True, data=data)


def _canonical(name: str | None) -> str:
    return (name or "").replace("_", "-").replace(".", "-").lower()


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
