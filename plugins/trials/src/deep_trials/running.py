"""What commands of `deep eval` share: they run trials with a line for each, show them, and end with a code."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from deep_cli import Failure, load_key, say, say_json

from deep_core import ConfigError, Kernel, PluginError

from .errors import TrialsError
from .rows import Row

if TYPE_CHECKING:
    from .budgets import Budget
    from .runs import Contender, Job, Outcome
    from .suites import Suite

__all__ = [
    "INTERRUPTED",
    "USAGE",
    "chosen_suite",
    "exit_code",
    "failures",
    "read_budget",
    "run_all",
    "run_folder",
    "run_trials",
    "show",
    "until_stopped",
]

T = TypeVar("T")
USAGE, INTERRUPTED = 2, 130


@contextmanager
def failures() -> Generator[None]:
    """End the command with what a user can repair."""
    try:
        yield
    except (TrialsError, ConfigError, PluginError) as error:
        raise Failure(str(error), USAGE) from error


def chosen_suite(name: str, kernel: Kernel, tasks: Sequence[str] = ()) -> Suite:
    """Return a suite with these tasks, or all. Raises SuiteError if there is none, or a task changed since."""
    from dataclasses import replace

    from deep_core.plugin_api import suggest

    from .errors import SuiteError
    from .finding import find_suite

    suite = find_suite(name, kernel)
    if suite.file.tasks and (changed := [*suite.changed()]):
        raise SuiteError(
            f"suite {suite.name}: {', '.join(changed)} changed since it was validated: "
            f"deep eval validate {name} --write"
        )
    names = [task.name for task in suite.tasks]
    if unknown := [task for task in tasks if task not in names]:
        raise SuiteError(f"suite {suite.name} has no task {unknown[0]!r}.{suggest(unknown[0], names)}")
    return replace(suite, tasks=tuple(task for task in suite.tasks if not tasks or task.name in tasks))


def run_trials(
    suite: Suite,
    chosen: Sequence[Contender],
    *,
    n: int,
    at_once: int,
    budget: str | None,
    out: Path | None,
    retry: Sequence[Any] = (),
    **_: Any,
) -> tuple[Outcome, Path]:
    """Run each task on each contender; return how it ended, and the folder."""
    from .runs import jobs_of

    folder = run_folder(out, suite.name)
    for model in {each.model for each in chosen if each.model}:
        load_key(model)
    return run_all(jobs_of(suite, chosen, n), folder, at_once, read_budget(budget), retry), folder


def run_folder(out: Path | None, name: str) -> Path:
    """Return the folder of a run: the chosen one, or one that is named by the time."""
    return out or Path("trials") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"


def run_all(jobs: Sequence[Job], folder: Path, at_once: int, budget: Budget | None, retry: Sequence[Any]) -> Outcome:
    """Run trials with a line for each."""
    from .isolation import isolates
    from .runs import run_jobs

    if isolates() is None:
        say("bubblewrap does not work here: trials see this whole disk, the tests too", err=True)
    return until_stopped(
        run_jobs(jobs, folder, at_once=at_once, budget=budget, retry=retry, ended=_Progress(len(jobs), at_once))
    )


def until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end; Ctrl-C cancels, and what was done is returned."""
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(work)
        import signal

        try:
            loop.add_signal_handler(signal.SIGINT, task.cancel)
            loop.add_signal_handler(signal.SIGTERM, task.cancel)
        except (NotImplementedError, RuntimeError, ValueError):
            pass  # not the main thread
        return loop.run_until_complete(task)


def read_budget(text: str | None) -> Budget | None:
    """Read `--budget`."""
    from .budgets import parse_budget

    try:
        return None if text is None else parse_budget(text)
    except ValueError as error:
        raise Failure(f"--budget: {error}", USAGE) from error


class _Progress:
    """A line on stderr for each trial that ended, with the time that is left."""

    def __init__(self, wanted: int, at_once: int) -> None:
        self._began, self._count, self._at_once = time.monotonic(), 0, at_once
        self._width = len(str(wanted))

    def __call__(self, row: Row, done: int, wanted: int) -> None:
        self._count += 1
        left = (time.monotonic() - self._began) / self._count * (wanted - done)
        rest = f"  about {_words(left)} left" if done < wanted else ""
        color = "green" if row.passed else "red" if row.counts else "yellow"
        say(f"{done:{self._width}}/{wanted}  ", (f"{row.end:8}", color), f"  {row.task}  {row.who}{rest}", err=True)


def _words(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


def show(outcome: Outcome, folder: Path, output: str) -> None:
    """Print a run's table, and write its page."""
    from .page import write_page
    from .reports import as_json, as_markdown, as_text

    page = write_page(outcome.rows, folder) if outcome.rows else None
    if output == "json":
        say_json(as_json(outcome.rows, outcome.end, outcome.left, str(folder)))
        return
    if output == "markdown":
        say(as_markdown(outcome.rows) if outcome.rows else "no trial was run", end="")
        return
    say("\n".join(["", *as_text(outcome.rows)]))
    if outcome.left:
        why = "the budget is spent" if outcome.end == "budget" else "stopped"
        say(f"\n{why}: {outcome.left} trials are left; the same command with --out {folder} goes on")
    if page is not None:
        say(f"\n{page}  shows every conversation")


def exit_code(outcome: Outcome) -> int:
    """Return the exit code of a run."""
    if outcome.end == "stopped":
        return INTERRUPTED
    return 1 if any(not row.counts for row in outcome.rows) else 0
