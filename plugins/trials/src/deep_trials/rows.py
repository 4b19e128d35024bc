"""One JSON line a trial: appended whole once the trial is done, and read again by whoever goes on or reports."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import Literal, get_args

from pydantic import TypeAdapter, ValidationError

from .errors import TrialsError

__all__ = ["ENDS", "End", "Key", "Row", "TrialsFile", "read_rows"]

End = Literal["solved", "unsolved", "timeout", "limit", "provider", "tool_error", "invalid_call", "harness"]
ENDS: tuple[End, ...] = get_args(End)
NO_VERDICT: tuple[End, ...] = ("provider", "harness")
"""Ends that say nothing about the agent."""
FILE = "trials.jsonl"
Key = tuple[str, str, str, str, int]


@dataclass(frozen=True, kw_only=True)
class Row:
    """How a trial ended.

    Attributes:
        schema: 1.
        suite: the suite's name.
        task: the task's name.
        model: the model's id; "" for the agent's own.
        agent: as `--agent` names it.
        without: what was left out of the agent; "" for nothing.
        n: 1 for the first trial of the task, and so on.
        end: how it ended.
        passed: whether the task is solved.
        scores: what `check` returned.
        note: why it is not solved, or what failed.
        tokens_in: tokens sent, subagents included.
        tokens_out: tokens answered.
        tokens_cached: tokens read from the provider's cache.
        usd: list price in US dollars; None if it is not known.
        seconds: of the agent, without the tests.
        requests: to the model.
        calls: of tools, in the agent's own conversation.
        prompt: estimated tokens of prompt and tools in each request; 0 for agents that are not of deep.
        plugins: the same by plugin.
        contributing: plugins that contribute anything.
        session: the id of its session.
        store: the URL of its session store, relative to the folder of the run.
        task_digest: of the task's files.
        versions: of the distributions that took part.
    """

    suite: str
    task: str
    model: str
    agent: str
    n: int
    end: End
    passed: bool
    without: str = ""
    scores: Mapping[str, bool | float] = field(default_factory=dict[str, "bool | float"])
    note: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    usd: float | None = None
    seconds: float = 0.0
    requests: int = 0
    calls: int = 0
    prompt: int = 0
    plugins: Mapping[str, int] = field(default_factory=dict[str, int])
    contributing: tuple[str, ...] = ()
    session: str = ""
    store: str = ""
    task_digest: str = ""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    schema: int = 1

    @property
    def key(self) -> Key:
        """What makes it one trial: the same is never run twice."""
        return self.task, self.model, self.agent, self.without, self.n

    @property
    def who(self) -> str:
        """What was measured, in words."""
        without = f" without {self.without}" if self.without else ""
        return f"{self.agent}{f' · {self.model}' if self.model else ''}{without}"

    @property
    def counts(self) -> bool:
        """Whether it says anything about the agent."""
        return self.end not in NO_VERDICT

    @property
    def folder(self) -> str:
        """The folder of the trial, relative to that of the run."""
        return os.path.dirname(self.store.removeprefix("sqlite:///"))


def _line(row: Row) -> bytes:
    # The schema first: a reader looks at it before anything else.
    return json.dumps({"schema": row.schema, **asdict(row)}).encode() + b"\n"


class TrialsFile:
    """The lines of a run, in a folder that one process at a time writes.

    Args:
        folder: of the run; it is made.

    Raises:
        TrialsError: another process writes there.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / FILE
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise TrialsError(f"another deep eval writes to {folder}: wait for it, or choose another --out") from error
        self._drop_torn_line()

    def _drop_torn_line(self) -> None:
        """Drop what a process that was killed left without an end: that trial is run again."""
        data = self.path.read_bytes()
        if data and not data.endswith(b"\n"):
            os.ftruncate(self._file, data.rfind(b"\n") + 1)

    def add(self, row: Row) -> None:
        """Append a line, and wait until the disk has it."""
        os.write(self._file, _line(row))
        os.fsync(self._file)

    def keep(self, rows: Iterable[Row]) -> None:
        """Replace all lines, at once. The file stays locked."""
        data = b"".join(_line(row) for row in rows)
        new = self.path.with_suffix(".new")
        new.write_bytes(data)
        file = os.open(new, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC)
        fcntl.flock(file, fcntl.LOCK_EX)
        os.fsync(file)
        os.replace(new, self.path)
        os.close(self._file)
        self._file = file

    def close(self) -> None:
        """Let another process write."""
        os.close(self._file)


def read_rows(path: Path) -> list[Row]:
    """Return the trials of a run's folder, or of a file of lines; unknown keys are left out.

    Raises:
        TrialsError: there is no such file, or a line is no trial of schema 1.
    """
    file = path / FILE if path.is_dir() else path
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise TrialsError(f"{path} has no trials: {error}") from error
    return [_row(line, f"{file}:{number}") for number, line in enumerate(lines[:-1], 1)]


def _row(line: str, where: str) -> Row:
    try:
        row = _reader().validate_json(line)
    except ValidationError as error:
        first = error.errors()[0]
        at = ".".join(map(str, first["loc"]))
        raise TrialsError(f"{where}: this line is no trial: {at}{': ' if at else ''}{first['msg']}") from error
    if row.schema != 1:
        raise TrialsError(f"{where}: schema {row.schema} is of a newer deep-trials")
    return row


@cache
def _reader() -> TypeAdapter[Row]:
    return TypeAdapter(Row)
