"""Whether a task measures anything: its reference solution passes, and who does nothing fails, each time."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from .grading import Verdict, grade
from .isolation import View, run_alone
from .runs import Contender, Job, run_job
from .suites import Suite
from .tasks import Task
from .workspaces import write_tree

__all__ = ["validate_suite"]

REFERENCE = Contender(model="trials:reference")


async def validate_suite(
    suite: Suite, *, times: int = 3, at_once: int = 2, only: Sequence[str] = ()
) -> dict[str, str | None]:
    """Return what is wrong with each task; None for a good one.

    Args:
        suite: the suite.
        times: how often the reference and nothing are run.
        at_once: how many tasks are checked at once.
        only: names of tasks; all if empty.
    """
    tasks = [task for task in suite.tasks if not only or task.name in only]
    free = asyncio.Semaphore(at_once)

    async def check(task: Task) -> str | None:
        async with free:
            with tempfile.TemporaryDirectory(prefix="deep-validate-") as folder:
                return await _problem(suite, task, Path(folder), times)

    return dict(zip((task.name for task in tasks), await asyncio.gather(*map(check, tasks)), strict=True))


async def _problem(suite: Suite, task: Task, folder: Path, times: int) -> str | None:
    for n in range(1, times + 1):
        write_tree(task.files, folder / f"nothing-{n}")
        verdict = await grade(task, folder / f"nothing-{n}", "", ())
        if verdict.passed is None:
            return verdict.note
        if verdict.passed:
            return "doing nothing passes"
    for n in range(1, times + 1):
        verdict = await _reference(suite, task, folder, n)
        if not verdict.passed:
            return f"the reference solution fails, time {n}: {verdict.note}"
    return None


async def _reference(suite: Suite, task: Task, folder: Path, n: int) -> Verdict:
    """Play `solution/script.json` through the agent, or run `solution/solve.sh` in the workspace."""
    if task.solution.script is not None:
        row = await run_job(Job(suite, task, REFERENCE, n), folder)
        return Verdict(row.passed, row.scores, f"{row.end}: {row.note}")
    place = folder / f"reference-{n}"
    write_tree(task.files, place / "workspace")
    write_tree(task.solution.files, place / "solution")
    ended = await run_alone(
        ["sh", str(place / "solution" / "solve.sh")],
        view=View(writable=[place], network=task.file.deep.network),
        cwd=place / "workspace",
        env={**os.environ, "HOME": str(place)},
        stdin=b"",
        log=place / "log.txt",
        seconds=task.file.agent.timeout_sec,
    )
    if ended.code:
        return Verdict(False, {}, f"solve.sh ended with {ended.code}")
    return await grade(task, place / "workspace", "", ())
