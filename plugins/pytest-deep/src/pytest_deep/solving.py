"""`assert_solves`: one task of deep-trials, run on an agent, as an assertion of a test."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

__all__ = ["assert_solves"]


def assert_solves(task: str | PathLike[str], agent: str = "deep", *, model: str = "") -> None:
    """Run a task on an agent in a process of its own, as `deep eval` does, and fail with what its tests say.

    Args:
        task: the folder of the task.
        agent: `deep`, all installed plugins, or `module:attribute`, of a module of the working directory or installed.
        model: a model's id; "" for the agent's own.

    Raises:
        AssertionError: the task is not solved; the message has how the trial ended, why, and the conversation.
        ImportError: deep-trials is not installed.
    """
    from deep_trials import solve

    found = solve(Path(task), agent, model)
    if not found.row.passed:
        row = found.row
        why = f"{row.task} is not solved by {row.who}: {row.end}: {row.note or 'its tests say no'}"
        raise AssertionError("\n  ".join([why, *found.talk]))
