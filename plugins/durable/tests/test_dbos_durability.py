"""Pydantic AI's `DBOSDurability` with an agent of ours: what docs/durability.md says of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.exhaustive
PROGRAM = Path(__file__).with_name("dbos_program.py")


def program(folder: Path, executor: str, verb: str, code: int = 0) -> str:
    command = [sys.executable, str(PROGRAM), str(folder), executor, verb]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert done.returncode == code, done.stderr
    return done.stdout


def lines(folder: Path, name: str) -> list[str]:
    return (folder / name).read_text().splitlines()


def test_a_killed_workflow_continues_and_its_tools_run_twice_unless_they_are_steps(tmp_path: Path) -> None:
    program(tmp_path, "one", "start", code=-9)
    assert lines(tmp_path, "requests") == ["0", "1", "2"]
    assert program(tmp_path, "one", "finish") == "finished\n"
    assert lines(tmp_path, "requests") == ["0", "1", "2", "3"]  # no request twice
    assert [len(lines(tmp_path, name)) for name in ("plain", "marked", "crash")] == [2, 1, 2]


def test_another_executor_does_not_take_over(tmp_path: Path) -> None:
    program(tmp_path, "one", "start", code=-9)
    assert program(tmp_path, "two", "look") == "PENDING one\n"
    assert len(lines(tmp_path, "crash")) == 1


def test_a_workflow_takes_no_capability_of_one_run_and_no_cancellation(tmp_path: Path) -> None:
    told = program(tmp_path, "one", "refusals")
    assert "Capabilities added per-run" in told
    assert "`cancellation_token` cannot be used" in told


def test_a_tool_that_needs_the_backend_itself_is_not_offered(tmp_path: Path) -> None:
    program(tmp_path, "one", "start", code=-9)
    (offered,) = set(lines(tmp_path, "offered"))
    assert {"read_file", "write_file"} <= {*offered.split()}
    assert "execute" not in offered.split()
