"""Probes, seen from the parent: a child process with a time limit tries what could end or hang this one.

Most of its time goes into starting, so one child tries all of them. What ends or hangs that child is tried once more in
one of its own, and the others are tried together again without it; what only went wrong there is tried once more, too:
so what is told of a plugin is its own doing.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, cast

from deep_core.plugin_api import Candidate, FoundPlugins, canonical, entry_source

from .screen import one_line
from .waiting import POLL_SECONDS

__all__ = ["Outcome", "Probe", "end", "probed"]

START_SECONDS = 60.0
"""How long a child may take to load Pydantic AI, which is no plugin's doing: a cold disk, a busy machine."""
PHASES = {
    "start": "could not be probed: Pydantic AI does not load",
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

    @property
    def well(self) -> bool:
        """Whether there is nothing to try again in a process of its own."""
        return bool(self.data.get("well")) and not self.ended


@dataclass(frozen=True)
class Probe:
    """One job for a child process; `deep_cli.probe` does it."""

    job: dict[str, Any]

    @property
    def of_all(self) -> bool:
        """Whether it loads every plugin."""
        return self.job["plugin"] is None

    @classmethod
    def of_plugin(cls, candidate: Candidate, found: FoundPlugins, config: Path | None) -> Probe:
        """Load one plugin with what it requires, call its hooks, assemble an agent of that."""
        by_distribution = {canonical(c.record.distribution): c for c in found.candidates if c.record.distribution}
        allowed: dict[str, None] = {}
        waiting = [
            canonical(c.record.distribution or "")
            for c in found.candidates
            if c is candidate or entry_source(c.record, found.lists.require)
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


def probed(probes: Sequence[Probe], seconds: float) -> list[Outcome]:
    """Do them all; returns an outcome each, in their order.

    Args:
        probes: what is tried, one after the other.
        seconds: how long each may take.
    """
    outcomes: dict[int, Outcome] = {}
    alone: dict[int, Future[tuple[list[Outcome], bool]]] = {}
    together = list(range(len(probes)))
    stop = Event()
    workers = max(1, min(4, os.cpu_count() or 1))  # more would slow down what is measured
    with ThreadPoolExecutor(workers) as pool, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(stop.set)  # after Ctrl-C the pool's threads end their children at once
        while together:
            found, clean = _in_one_child([probes[i] for i in together], seconds, stop)
            tried = together[: len(found)]
            if clean:
                outcomes.update(zip(tried, found, strict=True))
                # Nothing was there before the first one: what went wrong there is its own doing.
                again = [i for i in tried[1:] if not outcomes[i].well]
                together = together[len(found) :]
            elif tried:  # the last one ended it, and how the others let the process end was not seen
                outcomes[tried[-1]] = found[-1]
                together.remove(tried[-1])
                again = tried[1:][-1:] + [i for i in together if probes[i].of_all]  # what ended it would do so there
                together = [i for i in together if not probes[i].of_all]
            else:
                again, together = together, []
            alone.update({i: pool.submit(_in_one_child, [probes[i]], seconds, stop) for i in again})
        while wait(alone.values(), POLL_SECONDS).not_done:
            pass  # a signal is noticed after each short wait
    outcomes.update({i: future.result()[0][0] for i, future in alone.items()})
    return [outcomes[i] for i in range(len(probes))]


def _in_one_child(probes: Sequence[Probe], seconds: float, stop: Event) -> tuple[list[Outcome], bool]:
    """The outcomes of the first ones, as far as it came, and whether the child ended as it should.

    Where it did not, the last outcome is of the one that ended it; there is none where that cannot be told.
    """
    try:
        place = tempfile.TemporaryDirectory(prefix="deep-doctor-")
    except OSError as error:
        problem = f"could not be probed: no folder for temporary files can be written ({error})"
        return [Outcome(problem, ended=True) for _ in probes], True
    with place as folder:
        out = Path(folder, "out.jsonl")
        out.touch()
        Path(folder, "jobs.json").write_text(json.dumps([probe.job for probe in probes]), encoding="utf-8")
        child = subprocess.Popen(
            # -P: the current directory is not searched for modules, as it is not for the command itself.
            [sys.executable, "-P", "-m", "deep_cli.probe", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # so that what the plugin started can be ended with it
        )
        try:
            code = _wait(child, out, seconds, stop)
        finally:
            end(child)
        return _read(out, code, seconds, single=len(probes) == 1)


def _wait(child: subprocess.Popen[bytes], out: Path, seconds: float, stop: Event) -> int | None:
    """The exit code; None if one probe, or the end, takes too long, or once `stop` is set."""
    begun, limit = 0, time.monotonic() + max(seconds, START_SECONDS)
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(POLL_SECONDS)
        count = len(_said(out))
        if count > begun:
            begun, limit = count, time.monotonic() + seconds
        elif time.monotonic() > limit:
            break
    return None


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child that has a session of its own, with all that it started there."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it and all it started are gone
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def _said(out: Path) -> list[dict[str, Any]]:
    """What the child said of each probe that it began, and of its end."""
    said: list[dict[str, Any]] = []
    for line in out.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # the process ended in the middle of it
        data = cast("dict[str, Any]", json.loads(line))
        if "probe" in data:
            said.append({})
        said[-1].update(data)
    return said


def _read(out: Path, code: int | None, seconds: float, single: bool) -> tuple[list[Outcome], bool]:
    said = _said(out) or [{"phase": "start"}]
    phase = said[-1]["phase"]
    found = [Outcome(data.get("problem", ""), data=data) for data in said if data.get("finished")]
    if phase == "exit" and code == 0:
        return found, True
    if code is None:
        what = f"hangs (stopped after {seconds:g} s)"
    elif code < 0:
        what = f"is killed by {signal.Signals(-code).name}"
    else:
        what = f"ends the process (exit code {code})"
    problem = one_line(PHASES[phase].format(what=what), 200)
    if single:
        # What went wrong before is more telling than how the process ended then.
        return [found[0] if found and found[0].problem else Outcome(problem, ended=True, data=said[0])], False
    if phase in ("start", "exit"):
        return [], False  # any of them may have left what ends it now
    return [*found[: len(said) - 1], Outcome(problem, ended=True, data=said[-1])], False


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
