"""Run probes from the parent: a child process with a time limit tries what could end or hang this one.

Starting a child costs most, so one child runs all probes. A probe that ends or hangs it runs again in a child by
itself, and the others again together without it; a probe that only failed there runs once more, too. So each result
is the plugin's own.
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

from ..terminal.screen import one_line
from ..terminal.waiting import POLL_SECONDS

__all__ = ["Outcome", "Probe", "end", "run_probes"]

START_SECONDS = 60.0
"""Seconds for a child to load Pydantic AI, on a cold disk or a busy machine."""
PHASES = {
    "start": "could not be checked: Pydantic AI does not load",
    "import": "{what} while it is imported",
    "agent": "{what} while an agent is assembled",
    "model": "{what} while the model is made",
    "exit": "{what} after all was done",
}
"""The child's last announced phase -> the problem if it ended there."""


@dataclass(frozen=True)
class Outcome:
    """The result of a probe.

    Attributes:
        problem: what went wrong, as the end of a sentence; "" for nothing.
        ended: whether the child ended before the probe did.
        data: the child's measurements.
    """

    problem: str
    ended: bool = False
    data: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def well(self) -> bool:
        """Whether there is no need to run it again in its own process."""
        return bool(self.data.get("well")) and not self.ended


@dataclass(frozen=True)
class Probe:
    """One job for a child process that runs `deep_cli.plugins.probe`."""

    job: dict[str, Any]

    @property
    def of_all(self) -> bool:
        """Whether it loads every plugin."""
        return self.job["plugin"] is None

    @classmethod
    def of_plugin(cls, candidate: Candidate, found: FoundPlugins, config: Path | None) -> Probe:
        """Load one plugin with its requirements, call its hooks, assemble an agent."""
        by_distribution = {canonical(c.record.distribution): c for c in found.candidates if c.record.distribution}
        allowed: dict[str, None] = {}
        waiting = [
            canonical(c.record.distribution or "")
            for c in found.candidates
            if c is candidate or entry_source(c.record, found.config.plugin_list("require") or ())
        ]
        while waiting:
            name = waiting.pop()
            if name in by_distribution and name not in allowed:
                allowed[name] = None
                waiting.extend(by_distribution[name].point.requires)
        return cls({"plugin": candidate.record.name, "allow": list(allowed), "config": _text(config)})

    @classmethod
    def of_agent(cls, config: Path | None, model: str | None, backend: str | None) -> Probe:
        """Assemble the agent of all plugins with its backend and model; send no request."""
        return cls({"plugin": None, "config": _text(config), "model": model, "backend": backend})


def run_probes(probes: Sequence[Probe], seconds: float) -> list[Outcome]:
    """Run all probes; return their outcomes in order.

    Args:
        probes: the jobs.
        seconds: time limit of each.
    """
    outcomes: dict[int, Outcome] = {}
    alone: dict[int, Future[tuple[list[Outcome], bool]]] = {}
    together = list(range(len(probes)))
    stop = Event()
    workers = max(1, min(4, os.cpu_count() or 1))  # more would disturb the measurement
    with ThreadPoolExecutor(workers) as pool, contextlib.ExitStack() as at_the_end:
        at_the_end.callback(stop.set)  # after Ctrl-C, end the pool's children at once
        while together:
            results, clean = _in_one_child([probes[i] for i in together], seconds, stop)
            attempts = together[: len(results)]
            if clean:
                outcomes.update(zip(attempts, results, strict=True))
                # It was the first in its process, so a failure is its own.
                again = [i for i in attempts[1:] if not outcomes[i].well]
                together = together[len(results) :]
            elif attempts:  # the last one ended it, so the end after the others was not seen
                outcomes[attempts[-1]] = results[-1]
                together.remove(attempts[-1])
                again = attempts[1:][-1:] + [i for i in together if probes[i].of_all]  # it would end that child too
                together = [i for i in together if not probes[i].of_all]
            else:
                again, together = together, []
            alone.update({i: pool.submit(_in_one_child, [probes[i]], seconds, stop) for i in again})
        while wait(alone.values(), POLL_SECONDS).not_done:
            pass  # a signal is handled after each short wait
    outcomes.update({i: future.result()[0][0] for i, future in alone.items()})
    return [outcomes[i] for i in range(len(probes))]


def _in_one_child(probes: Sequence[Probe], seconds: float, stop: Event) -> tuple[list[Outcome], bool]:
    """The outcomes of the probes that ran, and whether the child ended well.

    If it did not, the last outcome belongs to the probe that ended it; there is none if that is unknown.
    """
    try:
        place = tempfile.TemporaryDirectory(prefix="deep-doctor-")
    except OSError as error:
        problem = f"could not be checked: no folder for temporary files is writable ({error})"
        return [Outcome(problem, ended=True) for _ in probes], True
    with place as folder:
        out = Path(folder, "out.jsonl")
        out.touch()
        Path(folder, "jobs.json").write_text(json.dumps([probe.job for probe in probes]), encoding="utf-8")
        child = subprocess.Popen(
            # -P: do not search the current directory for modules, like the command itself.
            [sys.executable, "-P", "-m", "deep_cli.plugins.probe", folder],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # a group, so that the plugin's children end with it
        )
        try:
            code = _wait(child, out, seconds, stop)
        finally:
            end(child)
        return _read(out, code, seconds, single=len(probes) == 1)


def _wait(child: subprocess.Popen[bytes], out: Path, seconds: float, stop: Event) -> int | None:
    """The exit code; None if a probe or the end takes too long, or once `stop` is set."""
    before, limit = 0, time.monotonic() + max(seconds, START_SECONDS)
    while not stop.is_set():
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(POLL_SECONDS)
        count = len(_read_report(out))
        if count > before:
            before, limit = count, time.monotonic() + seconds
        elif time.monotonic() > limit:
            break
    return None


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child that has its own session, with all of its children."""
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):  # all of them have ended
            os.killpg(child.pid, signal.SIGKILL)
    else:
        child.kill()
    child.wait()


def _read_report(out: Path) -> list[dict[str, Any]]:
    """Collect the child's lines for each probe that it began, and its end."""
    reports: list[dict[str, Any]] = []
    for line in out.read_text(encoding="utf-8").splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # the process ended in the middle of it
        data = cast("dict[str, Any]", json.loads(line))
        if "probe" in data:
            reports.append({})
        reports[-1].update(data)
    return reports


def _read(out: Path, code: int | None, seconds: float, single: bool) -> tuple[list[Outcome], bool]:
    reports = _read_report(out) or [{"phase": "start"}]
    phase = reports[-1]["phase"]
    outcomes = [Outcome(data.get("problem", ""), data=data) for data in reports if data.get("finished")]
    if phase == "exit" and code == 0:
        return outcomes, True
    if code is None:
        what = f"hangs (stopped after {seconds:g} s)"
    elif code < 0:
        what = f"is killed by {signal.Signals(-code).name}"
    else:
        what = f"ends the process (exit code {code})"
    problem = one_line(PHASES[phase].format(what=what), 200)
    if single:
        # An earlier error explains more than how the process ended.
        return [
            outcomes[0] if outcomes and outcomes[0].problem else Outcome(problem, ended=True, data=reports[0])
        ], False
    if phase in ("start", "exit"):
        return [], False  # any of them may have caused the end
    return [*outcomes[: len(reports) - 1], Outcome(problem, ended=True, data=reports[-1])], False


def _text(path: Path | None) -> str | None:
    return None if path is None else str(path.resolve())
