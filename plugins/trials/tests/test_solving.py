"""`assert_solves`: a task as an assertion."""

from __future__ import annotations

from pathlib import Path

import pytest
from pytest_deep import assert_solves

from plugins.trials.tests.written import write_task

pytestmark = pytest.mark.slow


def test_a_task_that_is_solved_passes(tmp_path: Path) -> None:
    write_task(tmp_path / "task")
    assert_solves(tmp_path / "task", model="trials:reference")


def test_a_task_that_is_not_solved_fails_with_the_conversation(tmp_path: Path) -> None:
    look = {"calls": [{"name": "ls", "args": {}}]}
    write_task(tmp_path / "task", check="{'empty': False, 'long': 0.2}", script=[look, "no"])
    with pytest.raises(AssertionError) as failed:
        assert_solves(tmp_path / "task", model="trials:reference")
    said = str(failed.value)
    assert said.startswith("task is not solved by deep · trials:reference: unsolved: empty\n  user: Answer yes.")
    assert "\n  ls {}: success: " in said
    assert said.endswith("\n  agent: no")
