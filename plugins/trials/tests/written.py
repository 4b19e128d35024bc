"""Tasks and rows that a test writes by hand."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from deep_trials.rows import Row
from deep_trials.suites import Suite

CHECK = """
from deep_trials.checking import Trial, call, read, run

def check(trial):
    return {body}
"""
Maker = Callable[..., Suite]


def write_task(
    folder: Path,
    *,
    check: str = "trial.answer == 'yes'",
    script: Any = ("yes",),
    files: Mapping[str, str] | None = None,
    tests: Mapping[str, str] | None = None,
    solve: str | None = None,
    deep: str = "",
    timeout: float = 60.0,
    instruction: str = "Answer yes.",
) -> None:
    for name in ("files", "tests", "solution"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "task.toml").write_text(f"[agent]\ntimeout_sec = {timeout}\n[deep]\n{deep}\n", encoding="utf-8")
    (folder / "instruction.md").write_text(instruction, encoding="utf-8")
    for name, text in (files or {}).items():
        path = folder / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name, text in (tests or {"check.py": CHECK.format(body=check)}).items():
        (folder / "tests" / name).write_text(text, encoding="utf-8")
    if solve is None:
        (folder / "solution" / "script.json").write_text(json.dumps(script), encoding="utf-8")
    else:
        (folder / "solution" / "solve.sh").write_text(solve, encoding="utf-8")


def row(task: str = "a", *, passed: bool = True, **values: Any) -> Row:
    """A row that a test writes by hand."""
    given = {"suite": "s", "model": "m", "agent": "deep", "n": 1, "end": "solved" if passed else "unsolved"}
    return Row(task=task, passed=passed, **{**given, **values})
