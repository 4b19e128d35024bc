"""Run the trials of a suite: each in a process and folders of its own, some at once, done ones never again."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from .budgets import Budget
from .errors import TrialsError
from .grading import Verdict, grade
from .isolation import Ended, View, run_alone
from .peers.environments import PROCESS
from .rows import End, Row, TrialsFile, read_rows
from .suites import Suite
from .tapes import compact
from .tasks import Task
from .workspaces import write_tree

__all__ = ["RECORD", "TAPE", "Contender", "Job", "Outcome", "jobs_of", "run_job", "run_jobs"]

START = 60.0
"""Seconds that a trial's process may need to start and to report, beside the agent's own time."""
MAX_NAME = 60
STARTED = "run.json"
TAPE = "tape.json"
RECORD: Mapping[str, Any] = {"record": True}


@dataclass(frozen=True)
class Contender:
    """What is measured.

    Attributes:
        agent: as `--agent` names it.
        model: a model's id; "" for the agent's own.
        config: the configuration that the name stands for.
        without: what is left out, in words; "" for nothing.
        disable: plugins that are left out.
        hide: a tool expression: tools that are not offered.
        python: the interpreter of a peer's environment; "" for an agent that runs here.
    """

    agent: str = "deep"
    model: str = ""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    without: str = ""
    disable: Sequence[str] = ()
    hide: str | None = None
    python: str = ""


@dataclass(frozen=True)
class Job:
    """One trial to run.

    Attributes:
        suite: the suite.
        task: the task.
        contender: what is measured.
        n: 1 for the first trial of the task.
        tape: `{"record": True}` records what models answer, into `tape.json` of its folder; a tape is played, without
            a network; None asks models as ever.
    """

    suite: Suite
    task: Task
    contender: Contender
    n: int
    tape: Mapping[str, Any] | None = None

    @property
    def key(self) -> tuple[str, str, str, str, int]:
        """As that of its row."""
        return self.task.name, self.contender.model, self.contender.agent, self.contender.without, self.n


@dataclass(frozen=True)
class Outcome:
    """How a run of trials ended.

    Attributes:
        rows: all trials of the folder that were asked for, in the order of the jobs.
        end: `done`, `budget` (nothing more was begun) or `stopped` (Ctrl-C).
        left: trials that were not run.
    """

    rows: Sequence[Row]
    end: Literal["done", "budget", "stopped"]
    left: int


def jobs_of(suite: Suite, contenders: Iterable[Contender], n: int) -> list[Job]:
    """Return the trials: one of each task for each contender, then the second of each, so a run cut short is fair."""
    contenders = [*contenders]
    return [Job(suite, task, each, k) for k in range(1, n + 1) for task in suite.tasks for each in contenders]


def begin(folder: Path, jobs: Sequence[Job]) -> None:
    """Note what a folder measures.

    Raises:
        TrialsError: it has trials of something else, so that its lines could not be compared.
    """
    file, suite = folder / STARTED, jobs[0].suite
    tasks: dict[str, Any] = {task.name: task.digest for task in suite.tasks}
    configs: dict[str, Any] = {job.contender.agent: dict(job.contender.config) for job in jobs}
    if file.exists():
        before = json.loads(file.read_text(encoding="utf-8"))
        known: tuple[dict[str, Any], ...] = (before["tasks"], before["configs"])
        if before["suite"] != suite.name or any(
            old[name] != new[name]
            for old, new in zip(known, (tasks, configs), strict=True)
            for name in old.keys() & new.keys()
        ):
            raise TrialsError(
                f"{folder} has trials of another suite, of changed tasks or configurations: choose another --out"
            )
        tasks, configs = {**known[0], **tasks}, {**known[1], **configs}
    new = file.with_suffix(".new")  # a process that is killed while it writes must not leave half a file
    new.write_text(json.dumps({"suite": suite.name, "tasks": tasks, "configs": configs}, indent=2) + "\n", "utf-8")
    os.replace(new, file)


async def run_jobs(
    jobs: Sequence[Job],
    folder: Path,
    *,
    at_once: int = 1,
    budget: Budget | None = None,
    retry: Iterable[End] = (),
    ended: Callable[[Row, int, int], object] | None = None,
) -> Outcome:
    """Run the trials that the folder does not have.

    Args:
        jobs: what to run; not empty.
        folder: where lines, workspaces and sessions go.
        at_once: how many run at once.
        budget: nothing more is begun once it is spent.
        retry: trials that ended so are run again.
        ended: called with each row, the number done and the number wanted.

    Raises:
        TrialsError: another process writes to the folder, or it measures something else.
    """
    file = TrialsFile(folder)
    try:
        begin(folder, jobs)
        again = {*retry}
        known = read_rows(folder)
        kept = [row for row in known if row.end not in again]
        if len(kept) < len(known):
            file.keep(kept)
        done = {row.key: row for row in kept}
        waiting = iter([job for job in jobs if job.key not in done])
        spent = False

        async def work() -> None:
            nonlocal spent
            for job in waiting:
                left = None if budget is None else budget.left(done.values())
                if left is not None and left <= 0:
                    spent = True
                    return
                row = await run_job(job, folder, usd=left if budget is not None and budget.unit == "usd" else None)
                file.add(row)
                done[row.key] = row
                if ended is not None:
                    ended(row, sum(job.key in done for job in jobs), len(jobs))

        stopped = await _all(work, at_once)
        rows = [done[job.key] for job in jobs if job.key in done]
        left = len(jobs) - len(rows)
        return Outcome(rows, "stopped" if stopped else "budget" if spent and left else "done", left)
    finally:
        file.close()


async def _all(work: Callable[[], Any], at_once: int) -> bool:
    """Run so many workers; return whether they were stopped."""
    workers = [asyncio.ensure_future(work()) for _ in range(at_once)]
    try:
        await asyncio.gather(*workers)
    except asyncio.CancelledError:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        return True
    except BaseException:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        raise
    return False


def _name(text: str) -> str:
    """Return a folder's name for any text; two texts never share one."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".-")[:MAX_NAME]
    return plain if plain == text else f"{plain}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _real(folder: Path) -> Path:
    return Path(os.path.realpath(folder))


async def run_job(job: Job, folder: Path, *, usd: float | None = None) -> Row:
    """Run one trial in a fresh folder, and judge it."""
    contender, task = job.contender, job.task
    folder = _real(folder)
    who = _name(" ".join(filter(None, (contender.agent, contender.model, contender.without))))
    place = folder / "work" / task.name / who / str(job.n)
    shutil.rmtree(place, ignore_errors=True)  # of a trial that was interrupted
    for name in ("home", "tmp"):
        (place / name).mkdir(parents=True)
    write_tree(task.files, place / "workspace")
    began = time.monotonic()
    ended = await _run_process(job, folder, place, usd)
    seconds = time.monotonic() - began
    said, tokens, taped = _said(ended)
    report: dict[str, Any] = said.get("result", {})
    shutil.rmtree(place / "tmp", ignore_errors=True)
    if job.tape == RECORD:
        _write(place / TAPE, compact(taped))
    _write(place / "transcript.json", {"answer": report.get("answer", ""), "messages": report.get("transcript", [])})
    end, note = _end(ended, said, place / "log.txt")
    verdict = Verdict(False, {}, note)
    if end == "unsolved":
        verdict = await grade(task, place / "workspace", report["answer"], report["calls"])
        if verdict.passed is None:
            end, verdict = "harness", Verdict(False, verdict.scores, verdict.note)
        elif verdict.passed:
            end = "solved"
    return Row(
        suite=job.suite.name,
        task=task.name,
        model=contender.model,
        agent=contender.agent,
        without=contender.without,
        n=job.n,
        end=end,
        passed=end == "solved",
        scores=verdict.scores,
        note=verdict.note,
        tokens_in=report.get("tokens_in", sum(each[0] for each in tokens)),
        tokens_out=report.get("tokens_out", sum(each[1] for each in tokens)),
        tokens_cached=report.get("tokens_cached", 0),
        usd=report.get("usd"),
        seconds=round(seconds, 2),
        requests=report.get("requests", len(tokens)),
        calls=len(report.get("calls", ())),
        prompt=sum(report.get("explained", {}).values()),
        plugins=report.get("explained", {}),
        contributing=tuple(report.get("contributing", ())),
        session=f"{task.name}.{job.n}",
        store=f"sqlite:///{(place / 'session.db').relative_to(folder).as_posix()}",
        task_digest=task.digest,
        versions=_versions(),
    )


async def _run_process(job: Job, folder: Path, place: Path, usd: float | None) -> Ended:
    task, contender = job.task, job.contender
    seconds = task.file.agent.timeout_sec
    said = {
        "agent": contender.agent,
        "typed_in": os.getcwd(),
        "model": contender.model or None,
        "config": dict(contender.config),
        "disable": [*contender.disable],
        "hide": contender.hide,
        "workspace": str(place / "workspace"),
        "store": f"sqlite:///{place / 'session.db'}",
        "session": f"{task.name}.{job.n}",
        "instruction": task.instruction,
        "file": task.file.model_dump(mode="json"),
        # Only a model that is a script may see the solution.
        "script": task.solution.script if contender.model.startswith("trials:") else None,
        "usd": usd,
        "seconds": seconds,
        "tape": job.tape,
        "functions": [*task.functions],
        "server": None if task.server is None else asdict(task.server),
        "turns": [*task.turns],
    }
    # A server needs its package, and the agent has no tool but the server's.
    hidden = [folder, *dict.fromkeys(each.folder.resolve() for each in job.suite.tasks if each.server is None)]
    argv = [sys.executable, "-P", "-m", "deep_trials.trial_process", "{fd}"]
    readable = [Path.cwd()] if ":" in contender.agent else []
    if contender.python:
        argv = [contender.python, "-P", str(PROCESS), "{fd}", contender.agent]
        readable = [Path(contender.python).parents[1], PROCESS.parent]
    if task.server is not None:
        readable += map(Path, task.server.reads)
    return await run_alone(
        argv,
        view=View(
            writable=[place],
            hidden=hidden,
            readable=readable,
            network=job.tape in (None, RECORD),
        ),
        cwd=place / "workspace",
        env=_environment(place),
        stdin=json.dumps(said).encode(),
        log=place / "log.txt",
        seconds=seconds + START,
    )


def _environment(place: Path) -> dict[str, str]:
    """Return this environment, which has the keys of providers, with a home and folders of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "DEEP_", "PYTHON"))}
    home = str(place / "home")
    return {**kept, "HOME": home, "USERPROFILE": home, "TMPDIR": str(place / "tmp"), "NO_COLOR": "1"}


@cache
def _versions() -> dict[str, str]:
    found = {dist.metadata["Name"]: dist.version for dist in importlib.metadata.distributions()}
    wanted = ("pydantic-ai-slim", "pydantic")
    return {name: version for name, version in sorted(found.items()) if name.startswith("deep-") or name in wanted}


def _said(ended: Ended) -> tuple[dict[str, Any], list[list[int]], list[dict[str, Any]]]:
    """Return what a trial's process said last, the tokens of each answer, and the recorded answers."""
    last: dict[str, Any] = {}
    tokens: list[list[int]] = []
    taped: list[dict[str, Any]] = []
    for line in ended.said.splitlines():
        try:
            said = cast("dict[str, Any]", json.loads(line))
        except ValueError:  # it was ended while it wrote
            continue
        if "tokens" in said:
            tokens.append(said["tokens"])
        elif "taped" in said:
            taped.append(said["taped"])
        else:
            last = said
    return last, tokens, taped


_CODES: Mapping[str, End] = {"run_timed_out": "timeout", "limit_exceeded": "limit", "internal_error": "tool_error"}


def _end(ended: Ended, said: Mapping[str, Any], log: Path) -> tuple[End, str]:
    """Return how the agent ended; `unsolved` means that the tests decide."""
    if ended.timed_out:
        return "timeout", "the agent did not end in its time"
    # A command of the agent can reach the pipe and end the process: only one that ended by itself has said its result.
    if "result" not in said or ended.code != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() if log.exists() else []
        return "harness", said.get("failed") or (lines[-1][:300] if lines else f"its process ended with {ended.code}")
    error: Mapping[str, str] | None = said["result"]["error"]
    if error is None:
        return "unsolved", ""
    code, words = error["code"], error["message"][:300]
    if code in _CODES:
        return _CODES[code], words
    if said["result"]["kind"] in ("length", "overflow", "filtered"):
        return "limit", words
    if said["result"]["cause"] in ("UnexpectedModelBehavior", "ToolRetryError"):
        return "invalid_call", words
    return ("provider" if said["result"]["kind"] is not None else "harness"), words


def _write(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
