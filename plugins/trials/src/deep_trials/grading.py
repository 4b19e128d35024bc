"""Judge what an agent left: in a copy, by tests that it never saw, in a process that runs none of its code."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from .isolation import View, isolates, run_alone
from .tasks import Task
from .workspaces import TooMuch, copy_workspace, write_tree

__all__ = ["Verdict", "grade"]

Score = bool | float
REPORT = "junit.xml"
SIGNALLED = 128
"""Above it, bubblewrap's exit code is that of a program which a signal ended."""


@dataclass(frozen=True)
class Verdict:
    """What the tests say.

    Attributes:
        passed: whether the task is solved; None if the tests themselves failed.
        scores: by name.
        note: why not, for people.
    """

    passed: bool | None
    scores: Mapping[str, Score]
    note: str = ""


async def grade(task: Task, workspace: Path, answer: str, calls: Sequence[Mapping[str, Any]]) -> Verdict:
    """Judge a workspace, an answer and the calls of a conversation. The workspace stays as it is."""
    place = new_folder("deep-judge-")
    try:
        for name in ("home", "tmp"):
            (place / name).mkdir()
        try:
            copy_workspace(task, workspace, place / "workspace")
        except TooMuch as error:
            return Verdict(False, {}, str(error))
        write_tree(task.tests, place / "tests")
        (place / "said.json").write_text(json.dumps({"answer": answer, "calls": [*calls]}), encoding="utf-8")
        is_check = "check.py" in task.tests
        ended = await run_alone(
            _check(place) if is_check else ["sh", str(place / "tests" / "test.sh")],
            view=View(
                [place / name for name in ("workspace", "home", "tmp")],
                hidden=[task.folder.resolve()] if task.server is None else (),
                readable=[place, *_reads(task)],
                network=False,
                nests=is_check,
            ),
            cwd=place / ("home" if is_check else "workspace"),
            env=_environment(place),
            stdin=b"",
            log=place / "log.txt",
            seconds=task.file.verifier.timeout_sec,
        )
        log = (place / "log.txt").read_text(encoding="utf-8", errors="replace").strip()
        last = log.splitlines()[-1][:300] if log else ""
        if ended.timed_out:
            return Verdict(False, {}, f"the tests took more than {task.file.verifier.timeout_sec:g} s")
        if not is_check:
            return _of_shell(task, place, ended.code, last)
        if ended.code != 0:
            # Code under test can end the judge, and must not look like a harness that failed.
            by_signal = ended.code < 0 or ended.code > SIGNALLED
            return Verdict(False if by_signal else None, {}, f"check.py failed: {last or ended.code}")
        try:
            said = json.loads(ended.said)
        except ValueError:
            return Verdict(False, {}, "something else spoke for the tests")
        return read_scores(said["scores"], said["note"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _reads(task: Task) -> list[Path]:
    return [] if task.server is None else [*map(Path, task.server.reads)]


def new_folder(prefix: str) -> Path:
    """Return a new folder by its real path, which mounts need."""
    return Path(os.path.realpath(tempfile.mkdtemp(prefix=prefix)))


def read_scores(scores: object, note: str) -> Verdict:
    """Return the verdict of what `check` returned: one boolean, or scores by name, all booleans of which must hold."""
    if isinstance(scores, bool):
        return Verdict(scores, {}, note)
    named = cast("Mapping[str, Any]", scores if isinstance(scores, Mapping) else {})
    bad = [
        name for name, value in named.items() if not isinstance(value, bool | int | float) or not math.isfinite(value)
    ]
    verdicts = {str(name): value for name, value in named.items() if isinstance(value, bool)}
    if bad or not verdicts:
        return Verdict(None, {}, "check(trial) returns a boolean, or scores by name with at least one boolean")
    failed = [name for name, value in verdicts.items() if not value]
    return Verdict(not failed, {str(name): value for name, value in named.items()}, note or ", ".join(failed))


def _of_shell(task: Task, place: Path, code: int, last: str) -> Verdict:
    """Return the verdict of `test.sh`. Code under test can end pytest's process with 0: then it has no report."""
    if code == 0 and b"pytest" in task.tests["test.sh"] and not (place / "home" / REPORT).exists():
        return Verdict(False, {}, "pytest ended before its tests did")
    return Verdict(code == 0, {}, "" if code == 0 else last)


def _check(place: Path) -> list[str]:
    words = ["{fd}", str(place / "tests"), str(place / "workspace"), str(place / "said.json"), isolates() or ""]
    # Isolated mode: neither the current directory nor the environment adds a module.
    return [sys.executable, "-I", "-B", "-m", "deep_trials.check_process", *words]


def _environment(place: Path) -> dict[str, str]:
    programs = os.pathsep.join([os.path.dirname(sys.executable), "/usr/local/bin", "/usr/bin", "/bin"])
    return {
        "PATH": programs,
        "HOME": str(place / "home"),
        "TMPDIR": str(place / "tmp"),
        "LANG": os.environ.get("LANG", "C.UTF-8"),
        "WORKSPACE": str(place / "workspace"),
        "TESTS": str(place / "tests"),
        "ANSWER": str(place / "said.json"),
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_ADDOPTS": f"-p no:cacheprovider --junitxml={place / 'home' / REPORT}",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
