"""The page "Measure your agent", typed by a reader: each command, and each block."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from plugins.trials.tests.written import write_task
from tests.docs_pages import ROOT

PAGE = (ROOT / "docs" / "measuring.md").read_text(encoding="utf-8")
FEW = " --task keep-a-plan --task write-a-file"
"""Twelve tasks for each command would take minutes; `deep eval run smoke` has a test of its own."""
COMMANDS = re.findall(r"^\$ (deep .+)$", PAGE, re.M)
SAID = {
    "eval suites": "smoke  12 tasks",
    "trials:hasty": "smoke: 2 tasks, 4 trials",
    "openai:gpt-5.2": "2 of 2",
    "compare first second": "tasks",
    "record smoke": "deep eval replay smoke.jsonl plays them",
    "replay smoke.jsonl": "2 of 2 trials as recorded",
    "matrix smoke": "bare · trials:reference",
    "validate ./suite": "1 of 1 tasks are good",
    "ablate": "solved only with it",
}


def reader(home: Path) -> dict[str, str]:
    """The environment of someone who has installed deep and has no key."""
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "HOME": str(home / "home"), "XDG_CONFIG_HOME": str(home / "config")}


@pytest.mark.slow
def test_every_command_of_the_page_does_what_it_says(tmp_path: Path) -> None:
    suite = tmp_path / "suite"
    write_task(suite / "one", check="trial.answer == 'yes'")
    (suite / "suite.toml").write_text('license = "MIT"\n', encoding="utf-8")
    assert len(COMMANDS) == len(SAID)
    for command, (part, said) in zip(COMMANDS, SAID.items(), strict=True):
        assert part in command
        # No key here: a model that is a script stands for the provider's.
        typed = command.replace("openai:gpt-5.2", "trials:reference").replace(" -n 3", "")
        typed += FEW if " smoke" in typed else ""
        done = subprocess.run(
            ["sh", "-c", typed], cwd=tmp_path, env=reader(tmp_path), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (typed, done.stdout, done.stderr)
        assert said in done.stdout, (typed, done.stdout)
    assert (tmp_path / "first" / "index.html").is_file()
    assert len((tmp_path / "first" / "trials.jsonl").read_text(encoding="utf-8").splitlines()) == 4


@pytest.mark.slow
def test_the_check_of_the_page_judges_a_workspace(tmp_path: Path) -> None:
    block = re.findall(r'```python title="tests/check.py"\n(.*?)```', PAGE, re.S)[0]
    suite = tmp_path / "suite"
    todos = [{"name": "write_todos", "args": {"todos": [{"content": "add", "status": "completed"}]}}]
    code = [{"name": "write_file", "args": {"path": "shop/prices.py", "content": "total = sum\n"}}]
    write_task(suite / "one", tests={"check.py": block}, script=[{"calls": todos}, {"calls": code}, "Done."])
    (suite / "suite.toml").write_text('license = "MIT"\n', encoding="utf-8")
    command = ["sh", "-c", f"deep eval validate {suite} --times 1"]
    done = subprocess.run(command, env=reader(tmp_path), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
