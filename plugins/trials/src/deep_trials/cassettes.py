"""A cassette: the tapes and rows of a run in one file of JSON lines, played without a key and without a network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from .errors import TrialsError
from .reports import table
from .rows import Row
from .runs import TAPE, Contender, Job
from .suites import FILE, Suite
from .tapes import Cleaner

__all__ = [
    "Cassette",
    "Difference",
    "difference_lines",
    "differences",
    "jobs_to_play",
    "read_cassette",
    "write_cassette",
]

KIND = "deep-cassette"
TAPED_ENDS = ("solved", "unsolved", "limit", "invalid_call", "tool_error")
"""Ends that the same answers lead to again; a time-out, a provider and the harness end a trial by chance."""
COMPARED = ("end", "passed", "scores", "requests", "calls", "tokens_in", "tokens_out")


@dataclass(frozen=True)
class Cassette:
    """A recorded run.

    Attributes:
        suite: the suite's name, or its folder.
        contenders: what was measured.
        rows: how each trial ended.
        tapes: the answers of each, in the order of the rows.
    """

    suite: str
    contenders: Sequence[Contender]
    rows: Sequence[Row]
    tapes: Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class Difference:
    """What a played trial does otherwise than the recorded one.

    Attributes:
        task: the task.
        who: what was measured.
        n: which of its trials.
        what: the value that differs.
        recorded: it, then.
        played: it, now.
        note: what the trial says of it.
    """

    task: str
    who: str
    n: int
    what: str
    recorded: object
    played: object
    note: str


def write_cassette(path: Path, suite: str, jobs: Sequence[Job], rows: Sequence[Row], folder: Path) -> int:
    """Write the tapes of a run of a suite, a name or a folder; return how many of its trials.

    Trials that a time-out, a provider or the harness ended are left out: they cannot be played again.

    Raises:
        TrialsError: a trial of the folder was run without being recorded.
    """
    contenders = [*{repr(job.contender): job.contender for job in jobs}.values()]
    kept = [row for row in rows if row.end in TAPED_ENDS]
    head = {"kind": KIND, "schema": 1, "suite": _told(suite, path), "contenders": [asdict(each) for each in contenders]}
    # Without its session and its store: they stay in the folder of the run.
    told = [asdict(replace(row, session="", store="")) for row in kept]
    lines = [head, *({"row": row, "tape": _tape(folder, each)} for row, each in zip(told, kept, strict=True))]
    cleaner = Cleaner(os.path.realpath(folder))
    new = path.with_name(f"{path.name}.new")
    new.write_text("".join(f"{json.dumps(cleaner.keep(line))}\n" for line in lines), encoding="utf-8")
    os.replace(new, path)
    return len(kept)


def _told(suite: str, path: Path) -> str:
    """Return the folder of a suite as it is found from the cassette: both may move together."""
    return os.path.relpath(suite, path.parent) if (Path(suite) / FILE).is_file() else suite


def _found(suite: str, path: Path) -> str:
    folder = path.parent / suite
    return str(folder) if (folder / FILE).is_file() else suite


def _tape(folder: Path, row: Row) -> Any:
    try:
        return json.loads((folder / row.folder / TAPE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise TrialsError(f"{folder}: {row.task} was run there without being recorded: choose another --out") from error


def read_cassette(path: Path) -> Cassette:
    """Read a cassette.

    Raises:
        TrialsError: the file is none.
    """
    try:
        head, *lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        if (head["kind"], head["schema"]) != (KIND, 1):
            raise ValueError(f"it is {head['kind']} {head['schema']}, not {KIND} 1")
        return Cassette(
            suite=_found(head["suite"], path),
            contenders=TypeAdapter(list[Contender]).validate_python(head["contenders"]),
            rows=TypeAdapter(list[Row]).validate_python([line["row"] for line in lines]),
            tapes=[line["tape"] for line in lines],
        )
    except (OSError, ValueError, KeyError, TypeError, ValidationError) as error:
        raise TrialsError(f"{path} is no cassette: {error}") from error


def jobs_to_play(cassette: Cassette, suite: Suite) -> list[Job]:
    """Return the trials of a cassette, each with its tape.

    Raises:
        TrialsError: a task is not as it was recorded.
    """
    tasks = {task.name: task for task in suite.tasks}
    found: list[Job] = []
    for row, tape in zip(cassette.rows, cassette.tapes, strict=True):
        if row.task not in tasks or tasks[row.task].digest != row.task_digest:
            raise TrialsError(f"suite {suite.name}: {row.task} is not the task that was recorded: record it again")
        mine = (row.agent, row.model, row.without)
        contender = next(each for each in cassette.contenders if (each.agent, each.model, each.without) == mine)
        found.append(Job(suite, tasks[row.task], contender, row.n, tape=tape))
    return found


def differences(recorded: Sequence[Row], played: Sequence[Row]) -> list[Difference]:
    """Return what ended otherwise; one for each trial."""
    now = {row.key: row for row in played}
    pairs = [(row, now[row.key]) for row in recorded if row.key in now]
    return [each for before, after in pairs for each in [*_difference(before, after)][:1]]


def _difference(before: Row, after: Row) -> Iterator[Difference]:
    for what in COMPARED:
        old, new = getattr(before, what), getattr(after, what)
        if old != new:
            yield Difference(before.task, before.who, before.n, what, old, new, after.note)


def difference_lines(found: Sequence[Difference]) -> list[str]:
    """Return the differences for a terminal."""
    cells = [[each.task, each.what, str(each.recorded), str(each.played)] for each in found]
    lines = table(["task", "what", "recorded", "now"], cells)
    return [lines[0], *(f"{line}  {each.note}".rstrip() for line, each in zip(lines[1:], found, strict=True))]
