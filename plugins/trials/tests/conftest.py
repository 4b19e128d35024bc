"""Suites that a test writes, and runs of them in real processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from deep_trials.rows import Row
from deep_trials.runs import Contender, Job, run_job
from deep_trials.suites import Suite, load_suite

from plugins.trials.tests.written import Maker, write_task


@pytest.fixture
def make_suite(tmp_path: Path) -> Maker:
    """`make_suite(first={…}, second={…})`: a suite of tasks, with what `write_task` takes."""

    def make(models: Sequence[str] = ("trials:reference",), **tasks: Mapping[str, Any]) -> Suite:
        folder = tmp_path / "suite"
        folder.mkdir(exist_ok=True)
        named = ", ".join(f'"{model}"' for model in models)
        (folder / "suite.toml").write_text(f'license = "MIT"\nmodels = [{named}]\n', encoding="utf-8")
        for name, task in tasks.items():
            write_task(folder / name, **task)
        return load_suite(folder)

    return make


@pytest.fixture
def run_one(tmp_path: Path) -> Callable[..., Row]:
    """`run_one(suite, agent="module:attribute")`: run one trial of the first task."""

    def run(suite: Suite, **contender: Any) -> Row:
        job = Job(suite, suite.tasks[0], Contender(**{"model": "trials:reference", **contender}), 1)
        return asyncio.run(run_job(job, tmp_path / "run"))

    return run
