"""Tasks and suites: read from folders, refused with words, found by name and by path."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deep_trials import find_suite, load_suite, load_task
from deep_trials.errors import SuiteError, TaskError
from deep_trials.finding import suite_lines
from deep_trials.grading import grade, read_scores
from deep_trials.suites import OWN, known_suites, write_hashes
from deep_trials.tasks import Timeout
from deep_trials.validating import validate_suite
from deep_trials.workspaces import copy_workspace

from deep_core import Kernel, hookimpl
from plugins.trials.tests.written import Maker, write_task


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda task: (task / "instruction.md").unlink(), "instruction.md"),
        (lambda task: (task / "tests" / "check.py").unlink(), "add check.py"),
        (lambda task: (task / "solution" / "script.json").unlink(), "add script.json"),
        (lambda task: (task / "solution" / "script.json").write_text("["), "script.json: "),
        (lambda task: (task / "task.toml").write_text("["), "task.toml: "),
        (lambda task: (task / "task.toml").write_text("[deep]\nrequest = 3\n"), "deep.request: Extra inputs"),
        (lambda task: (task / "task.toml").write_text("[deep]\nrequests = 0\n"), "deep.requests: "),
        (lambda task: (task / "task.toml").write_text("[agent]\ntimeout_sec = -1\n"), "agent.timeout_sec: "),
        (lambda task: (task / "files" / "link").symlink_to("/etc"), "cannot be links"),
        (lambda task: write(task / "environment" / "Dockerfile", "FROM scratch"), "runs with Harbor"),
    ],
)
def test_what_is_no_task_is_said(tmp_path: Path, change: Callable[[Path], object], words: str) -> None:
    write_task(tmp_path / "task")
    change(tmp_path / "task")
    with pytest.raises(TaskError, match=words):
        load_task(tmp_path / "task")


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def test_keys_of_harbor_are_left_to_harbor(tmp_path: Path) -> None:
    write_task(tmp_path / "task")
    write(
        tmp_path / "task" / "task.toml",
        'version = "1.0"\n[metadata]\ndifficulty = "easy"\ntags = ["x"]\n[verifier]\ntimeout_sec = 9.0\n'
        "[agent]\ntimeout_sec = 5.0\n[environment]\ncpus = 2\n",
    )
    write(tmp_path / "task" / "environment" / "data.txt", "1")
    task = load_task(tmp_path / "task")
    assert (task.file.metadata.tags, task.file.agent.timeout_sec, task.file.verifier.timeout_sec) == (("x",), 5.0, 9.0)
    assert task.files == {"data.txt": b"1"}


def test_the_digest_is_of_every_file(tmp_path: Path) -> None:
    write_task(tmp_path / "task", files={"a": "1"})
    first = load_task(tmp_path / "task").digest
    assert load_task(tmp_path / "task").digest == first
    for name in ("files/a", "tests/check.py", "solution/script.json", "instruction.md", "task.toml"):
        path = tmp_path / "task" / name
        before = path.read_bytes()
        path.write_bytes(before + b"\n")
        assert load_task(tmp_path / "task").digest != first, name
        path.write_bytes(before)


def test_a_suite_is_found_by_name_and_by_path(make_suite: Maker) -> None:
    folder = make_suite(one={}).folder
    with Kernel(read_config=False) as kernel:
        assert find_suite("smoke", kernel).name == "smoke"
        assert [task.name for task in find_suite(str(folder), kernel).tasks] == ["one"]
        with pytest.raises(SuiteError, match=r"no suite 'smok'\. Did you mean 'smoke'"):
            find_suite("smok", kernel)
        with pytest.raises(SuiteError, match=r"has no suite\.toml"):
            find_suite(str(folder / "one"), kernel)


def test_plugins_ship_suites_and_two_of_one_name_are_an_error(tmp_path: Path) -> None:
    class First:
        @hookimpl(of="trials")
        def deep_eval_suites(self, context: Any) -> list[Path]:
            return [tmp_path / "weather"]

    class Second(First):
        pass

    with Kernel(plugins=[First()], read_config=False) as kernel:
        assert known_suites(kernel)["weather"] == tmp_path / "weather"
    with (
        Kernel(plugins=[First(), Second()], read_config=False) as kernel,
        pytest.raises(SuiteError, match=r"two plugins have a suite 'weather':\n  first: .*\n  second: "),
    ):
        known_suites(kernel)


def test_a_suite_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    class Weather:
        @hookimpl(of="trials")
        def deep_eval_suites(self, context: Any) -> list[Path]:
            return [tmp_path / "weather"]

    with Kernel(plugins=[Weather()], read_config=False) as kernel:
        lines = [*suite_lines(kernel)]
    assert [line.split()[0] for line in lines] == ["calls", "dialogue", "injection", "smoke", "weather", "work"]
    assert "suite.toml" in lines[4]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "license"),
        ('license = "MIT"\nlicence = "MIT"\n', "licence"),
        ('license = "MIT"\n[tasks]\ngone = "0"\n', "names gone, which the folder does not have"),
        ("[", "suite.toml"),
    ],
)
def test_what_is_no_suite_is_said(make_suite: Maker, text: str, words: str) -> None:
    folder = make_suite(one={}).folder
    write(folder / "suite.toml", text)
    with pytest.raises(SuiteError, match=words):
        load_suite(folder)


def test_written_hashes_find_a_task_that_changed(make_suite: Maker) -> None:
    suite = make_suite(one={}, two={})
    write_hashes(suite)
    assert [*load_suite(suite.folder).changed()] == []
    write(suite.folder / "two" / "instruction.md", "Answer no.")
    changed = load_suite(suite.folder)
    assert [*changed.changed()] == ["two"]
    write_hashes(changed)
    assert [*load_suite(suite.folder).changed()] == []


@pytest.mark.parametrize("folder", OWN, ids=lambda folder: folder.name)
def test_our_suites_are_as_they_were_when_they_were_validated(folder: Path) -> None:
    assert [*load_suite(folder).changed()] == [], f"deep eval validate {folder.name} --write"


@pytest.mark.slow
@pytest.mark.parametrize("folder", OWN, ids=lambda folder: folder.name)
def test_each_reference_solves_its_task_and_nothing_does_not(folder: Path) -> None:
    suite = load_suite(folder)
    patient = {"agent": Timeout(timeout_sec=3600), "verifier": Timeout(timeout_sec=3600)}  # the machine may be busy
    tasks = tuple(replace(task, file=task.file.model_copy(update=patient)) for task in suite.tasks)
    found = asyncio.run(validate_suite(replace(suite, tasks=tasks), times=1))
    assert found == dict.fromkeys(found)


@pytest.mark.slow
def test_bad_tasks_are_refused(make_suite: Maker) -> None:
    suite = make_suite(
        passes_for_nothing={"check": "True"},
        fails_for_all={"check": "False"},
        breaks={"check": "1 / 0"},
        says_nothing={"check": "{'a': 0.5}"},
        shell_is_good={
            "tests": {"test.sh": 'test "$(cat "$WORKSPACE/out.txt")" = 42\n'},
            "solve": "echo 42 > out.txt\n",
        },
    )
    found = asyncio.run(validate_suite(suite, times=1))
    assert found.pop("shell_is_good") is None
    assert found["passes_for_nothing"] == "doing nothing passes"
    assert str(found["fails_for_all"]).startswith("the reference solution fails, time 1: unsolved")
    assert str(found["breaks"]).startswith("check.py failed: ZeroDivisionError")
    assert "at least one boolean" in str(found["says_nothing"])


@pytest.mark.parametrize(
    ("scores", "passed"),
    [
        (True, True),
        (False, False),
        ({"a": True, "quality": 0.3}, True),
        ({"a": True, "b": False}, False),
        ({"quality": 1.0}, None),
        ({"a": True, "quality": "high"}, None),
        ({"a": True, "quality": float("nan")}, None),
        (None, None),
        (1, None),
        ([], None),
    ],
)
def test_scores_are_booleans_that_all_hold_and_numbers(scores: object, passed: bool | None) -> None:
    assert read_scores(scores, "").passed is passed


@pytest.mark.slow
def test_the_judge_reads_what_the_agent_said_and_called(make_suite: Maker, tmp_path: Path) -> None:
    suite = make_suite(
        one={"check": "trial.answer == 'ok' and trial.used('look') == 1 and trial.calls[1].args == {'a': 1}"}
    )
    (tmp_path / "work").mkdir()
    calls = [
        {"tool": "look", "args": {}, "outcome": "success", "result": "x"},
        {"tool": "look", "args": {"a": 1}, "outcome": "denied", "result": ""},
    ]
    assert asyncio.run(grade(suite.tasks[0], tmp_path / "work", "ok", calls)).passed
    assert asyncio.run(grade(suite.tasks[0], tmp_path / "work", "no", calls)).passed is False


def test_a_copy_has_no_way_out_and_nothing_that_steers(make_suite: Maker, tmp_path: Path) -> None:
    suite = make_suite(
        one={
            "files": {"conftest.py": "# ours", "pytest.ini": "[pytest]", "kept/setup.cfg": "# ours"},
            "deep": 'keep = ["kept/setup.cfg"]',
        }
    )
    work = tmp_path / "work"
    for name, text in {
        "conftest.py": "# theirs",
        "a/sitecustomize.py": "x",
        "x.pth": "x",
        "kept/setup.cfg": "# theirs",
        "a/b.txt": "1",
    }.items():
        write(work / name, text)
    (work / "out").symlink_to("/etc/passwd")
    (work / "up").symlink_to("..")
    (work / "in").symlink_to("a/b.txt")
    copy_workspace(suite.tasks[0], work, tmp_path / "copy")
    copied = {
        path.relative_to(tmp_path / "copy").as_posix() for path in (tmp_path / "copy").rglob("*") if not path.is_dir()
    }
    assert copied == {"a/b.txt", "in", "conftest.py", "pytest.ini", "kept/setup.cfg"}
    assert (tmp_path / "copy" / "conftest.py").read_text() == "# ours"
    assert (tmp_path / "copy" / "kept" / "setup.cfg").read_text() == "# theirs"
