"""One task on one agent, for tests: `solve`."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .rows import Row
from .runs import Contender, Job, run_job
from .suites import Suite, SuiteFile
from .tasks import load_task

__all__ = ["Solved", "solve"]

LONGEST = 200


@dataclass(frozen=True)
class Solved:
    """How a task ended.

    Attributes:
        row: the trial.
        talk: its conversation, a line a message or call, shortened.
    """

    row: Row
    talk: tuple[str, ...]


def solve(task: Path, agent: str = "deep", model: str = "") -> Solved:
    """Run a task on an agent, in a process and folders of their own. Not for a running event loop.

    Args:
        task: the folder of the task.
        agent: `deep` (all installed plugins) or `module:attribute`.
        model: a model's id; "" for the agent's own.

    Raises:
        TaskError: the folder is no task.
    """
    loaded = load_task(task.resolve())
    suite = Suite(task.resolve().parent.name, task.resolve().parent, SuiteFile(license="unknown"), (loaded,))
    with tempfile.TemporaryDirectory(prefix="deep-solve-") as place:
        row = asyncio.run(run_job(Job(suite, loaded, Contender(agent, model), 1), Path(place)))
        return Solved(row, tuple(_talk(Path(place) / row.folder / "transcript.json")))


def _talk(path: Path) -> Iterator[str]:
    messages: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["messages"]
    for part in messages:
        if part["kind"] == "call":
            text = f"{part['tool']} {json.dumps(part['args'], ensure_ascii=False)}: {part['outcome']}: {part['result']}"
        else:
            text = f"{part['kind']}: {part['text']}"
        line = " ".join(text.split())
        yield line if len(line) <= LONGEST else f"{line[:LONGEST]}…"
