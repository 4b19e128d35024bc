"""`deep demo`: the main job without a key, a terminal or color."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def demo(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command in the tests' environment, which has the sample project."""
    return subprocess.run(
        [sys.executable, "-P", "-m", "deep_cli", "demo", *arguments],
        env={**os.environ, "NO_COLOR": "1", **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


@pytest.mark.slow
def test_the_demo_fixes_a_copy_of_the_sample_project_with_real_tools(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = demo("--dir", str(folder))
    assert done.returncode == 0, done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert str(folder) in done.stderr
    assert "approved: execute" in done.stderr
    assert "[filesystem," in done.stderr
    assert "Files    changed" in done.stderr
    assert "What I did:" in done.stdout
    tests = subprocess.run([sys.executable, "-m", "unittest"], cwd=folder, capture_output=True, check=False)
    assert tests.returncode == 0, tests.stderr


@pytest.mark.slow
def test_the_demo_refuses_a_folder_with_something_in_it(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    done = demo("--dir", str(tmp_path))
    assert done.returncode == 2
    assert "not empty" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine.txt"]


def test_the_demo_names_what_is_missing(make_deep: Any) -> None:
    done = make_deep("demo", "backends")("demo")
    assert done.code == 1
    assert done.err.startswith("deep: the demo needs deep-filesystem: ")
    assert done.err.endswith(" install deep-filesystem\n")  # with what installs there


def test_what_was_ignored_of_a_projects_file_is_said_once_however_often_it_is_read(make_deep: Any) -> None:
    deep = make_deep("demo", "backends")
    (deep.work / "deep.toml").write_text('[plugins.demo]\norder = 3\n[agent]\nmodel = "openai:x"\n')
    err = deep("demo").err
    assert err.count("ignored plugins.demo.order") == 1
    assert err.startswith("deep: warning: ")
