"""The README's programs run as they stand and print what their comments say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import another_process

README = Path(__file__).parent.parent / "README.md"
PROGRAMS = [
    block
    for block in re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    if "asyncio.run" in block
]


@pytest.mark.parametrize("program", PROGRAMS, ids=["local", "memory", "composite"])
def test_an_example_runs_and_prints_what_it_says(program: str, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    done = another_process.run(program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for said in re.findall(r"print\(.*# (.*)", program):
        assert said in done.stdout.splitlines()
