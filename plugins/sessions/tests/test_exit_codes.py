"""The exit code that the result of a command begins with."""

from __future__ import annotations

import pytest
from deep_sessions import exit_code, split_exit_code


@pytest.mark.parametrize(
    ("result", "code", "output"),
    [
        ("Exit code 3\nno such file", 3, "no such file"),
        ("Exit code -9, no output", -9, ""),
        ("Exit code 0, no output", 0, ""),
        ("Exit code 3 is what it says", None, "Exit code 3 is what it says"),
        ("fine", None, "fine"),
    ],
)
def test_the_exit_code_and_the_output_are_parted(result: str, code: int | None, output: str) -> None:
    assert split_exit_code(result) == (code, output)
    assert exit_code({"command": "x"}, result) == (code or None)
    assert exit_code({"path": "notes.txt"}, result) is None  # a file may begin so
