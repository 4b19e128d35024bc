"""What a type checker says of programs that embed deep: nothing of a right one, and every mistake of a wrong one."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from deep_core.parameters import PARAMETERS
from tests.environments import REPOSITORY

TYPED = Path(__file__).parent / "typed"


PROGRAMS = [TYPED / "embedding.py", TYPED / "wrong.py"]


def report() -> dict[str, dict[int, str]]:
    """Program -> line -> what pyright reports there, as strict as for the kernel itself."""
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, *map(str, PROGRAMS)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr + done.stdout
    found: dict[str, dict[int, str]] = {program.name: {} for program in PROGRAMS}
    for item in json.loads(done.stdout)["generalDiagnostics"]:
        found[Path(item["file"]).name][item["range"]["start"]["line"] + 1] = item["message"]
    return found


@pytest.mark.exhaustive  # `make lint` checks the right program too
@pytest.mark.needs("pyright")
def test_pyright_reports_every_mistake_of_the_wrong_program_and_nothing_of_the_right_one() -> None:
    reported = report()
    assert reported["embedding.py"] == {}
    lines = (TYPED / "wrong.py").read_text(encoding="utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# error")}
    assert len(marked) > 40
    assert {number: lines[number - 1] for number in marked ^ reported["wrong.py"].keys()} == {}


def test_the_strict_program_names_every_parameter() -> None:
    text = (TYPED / "embedding.py").read_text(encoding="utf-8")
    missing = {name for name in PARAMETERS if f'"{name}": ' not in text and f"{name}=" not in text}
    assert missing == set()
