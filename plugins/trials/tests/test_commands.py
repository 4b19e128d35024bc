"""`deep eval`, typed: exit codes, JSON, what Ctrl-C leaves, and the words of mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from deep_trials.reports import as_text
from deep_trials.rows import TrialsFile, read_rows

from plugins.trials.tests.written import Maker, row

pytestmark = pytest.mark.slow


def deep(*words: str, folder: Path, code: int = 0) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(folder / "home"), "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "deep_cli", "eval", *words]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def test_a_run_shows_a_table_writes_a_page_and_goes_on(make_suite: Maker, tmp_path: Path) -> None:
    folder = make_suite(good={}, bad={"check": "False"}).folder
    done = deep("run", str(folder), "--out", "out", folder=tmp_path)
    assert "suite: 2 tasks, 2 trials, trials:reference\n" in done.stdout
    assert "1 of 2" in done.stdout
    assert "bad  deep · trials:reference  unsolved" in done.stdout
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["1/2", "2/2"]
    assert "left" in done.stderr.splitlines()[0]
    assert (tmp_path / "out" / "index.html").exists()
    again = deep("run", str(folder), "--out", "out", "--output", "json", folder=tmp_path)
    assert again.stderr == ""
    said = json.loads(again.stdout)
    assert (said["schema"], said["end"], said["left"], len(said["trials"])) == (1, "done", 0, 2)
    assert said["summaries"][0]["solved"] == 1
    assert "| task |" in deep("report", "out", "--output", "markdown", folder=tmp_path).stdout


@pytest.mark.parametrize("shared", [{"model": "openai:gpt-5.2"}, {"agent": "pydantic-deep"}])
def test_a_table_names_what_all_share_once_and_fits_80_columns(shared: dict[str, str]) -> None:
    names = ("pydantic-deep", "deepagents", "openai:gpt-5.2-mini")
    kinds = [{"agent": each, "model": each, **shared} for each in names]
    rows = [row("a", tokens_in=46_703, prompt=1_031, **kind) for kind in kinds]
    heading, _, titles, *lines = as_text(rows)[:6]
    assert heading == f"s: 1 tasks, 3 trials, {next(iter(shared.values()))}"
    assert [line.split()[0] for line in lines] == [*names]
    assert max(map(len, [titles, *lines])) <= 80


def test_a_failure_of_the_harness_is_exit_code_1_and_not_unsolved(make_suite: Maker, tmp_path: Path) -> None:
    folder = make_suite(broken={"check": "1 / 0"}).folder
    done = deep("run", str(folder), "--out", "out", folder=tmp_path, code=1)
    assert "1 trials say nothing about the agent" in done.stdout
    assert read_rows(tmp_path / "out")[0].end == "harness"


def test_a_named_configuration_is_an_agent(make_suite: Maker, tmp_path: Path) -> None:
    folder = make_suite(one={"script": [{"calls": [{"name": "ls", "args": {}}]}, "yes"]}).folder
    (tmp_path / "config" / "deep").mkdir(parents=True)
    (tmp_path / "config" / "deep" / "config.toml").write_text(
        '[plugins.trials.options.agents.blind]\nplugins = { disable = ["filesystem"] }\n', encoding="utf-8"
    )
    said = json.loads(
        deep(
            "run", str(folder), "--agent", "blind", "--agent", "deep", "--out", "o", "--output", "json", folder=tmp_path
        ).stdout
    )
    assert {each["agent"]: each["end"] for each in said["trials"]} == {"blind": "unsolved", "deep": "solved"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "smokee"], "no suite 'smokee'. Did you mean 'smoke'?"),
        (["run", "smoke", "--agent", "gone"], "--agent gone: no configuration has that name."),
        (["run", "smoke", "--budget", "5"], "is no budget: write 5usd"),
        (["run", "smoke", "--task", "write-file"], "has no task 'write-file'. Did you mean 'write-a-file'?"),
        (["ablate", "smoke", "--plugin", "tod"], "--plugin tod: this kernel has no plugin 'tod'. Did you mean 'todo'?"),
        (["compare", ".", "."], "has no trials"),
        (["ablate", "smoke", "--agent", "a:b"], "ablate needs an agent of deep"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(words: list[str], said: str, tmp_path: Path) -> None:
    done = deep(*words, folder=tmp_path, code=2)
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_named_configuration_of_an_untrusted_file_says_how_to_trust_it(tmp_path: Path) -> None:
    file = tmp_path / "deep.toml"
    file.write_text('[plugins.trials.options.agents.blind]\nplugins = { disable = ["todo"] }\n', encoding="utf-8")
    for command in ("run", "ablate"):
        said = deep(command, "smoke", "--agent", "blind", folder=tmp_path, code=2).stderr.splitlines()
        assert said[-1] == f"deep: --agent blind: {file} has it, and is not trusted: deep config trust {file}"


def written(folder: Path, *passed: bool, agent: str = "deep") -> None:
    file = TrialsFile(folder)
    for number, each in enumerate(passed):
        file.add(row(f"t{number}", passed=each, agent=agent))
    file.close()


@pytest.mark.parametrize(
    ("before", "after", "share", "code"),
    [
        ([True] * 10, [True] * 10, "0%", 0),
        ([True] * 10, [True] * 9 + [False], "5%", 4),
        ([True] * 10, [True] * 9 + [False], "10%", 0),
        ([False] * 10, [True] * 10, "5%", 0),
        ([True] * 12, [False] * 12, "50 %", 4),
    ],
)
def test_worse_by_more_than_allowed_is_exit_code_4(
    before: list[bool], after: list[bool], share: str, code: int, tmp_path: Path
) -> None:
    written(tmp_path / "a", *before)
    written(tmp_path / "b", *after, agent="new")
    done = deep(
        "compare", "a", "b/trials.jsonl", "--fail-if-worse", share, "--output", "json", folder=tmp_path, code=code
    )
    said = json.loads(done.stdout)
    assert (said["schema"], said["worse"], said["tasks"]) == (1, code == 4, len(before))


def test_a_comparison_says_what_is_shown(tmp_path: Path) -> None:
    written(tmp_path / "a", *[True] * 12)
    written(tmp_path / "b", *[False] * 12, agent="new")
    assert (
        "new · m solves fewer than deep · m: 100% and 0% of 12 tasks"
        in deep("compare", "a", "b", folder=tmp_path).stdout
    )
    assert "no difference shown" in deep("compare", "a", "a", folder=tmp_path).stdout
    deep("compare", "a", "b", "--fail-if-worse", "five", folder=tmp_path, code=2)


def test_ctrl_c_keeps_what_is_done(make_suite: Maker, tmp_path: Path) -> None:
    slow = {
        "deep": 'approve = "execute"\nbackend = "local"',
        "script": [{"calls": [{"name": "execute", "args": {"command": "sleep 50"}}]}, "yes"],
    }
    folder = make_suite(a={}, b=slow).folder
    process = subprocess.Popen(
        [sys.executable, "-m", "deep_cli", "eval", "run", str(folder), "--out", "out", "-j", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (tmp_path / "out" / "work" / "b").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate()
    assert process.returncode == 130
    assert "stopped: 1 trials are left; the same command with --out out goes on" in out
    assert [each.task for each in read_rows(tmp_path / "out")] == ["a"]


def test_validate_writes_digests_and_run_refuses_what_changed(make_suite: Maker, tmp_path: Path) -> None:
    folder = make_suite(one={}).folder
    assert "1 of 1 tasks are good" in deep("validate", str(folder), "--times", "1", "--write", folder=tmp_path).stdout
    (folder / "one" / "instruction.md").write_text("Say yes.", encoding="utf-8")
    done = deep("run", str(folder), folder=tmp_path, code=2)
    assert "one changed since it was validated: deep eval validate" in done.stderr
    (folder / "one" / "tests" / "check.py").write_text("def check(trial):\n    return True\n", encoding="utf-8")
    assert "doing nothing passes" in deep("validate", str(folder), "--times", "1", folder=tmp_path, code=1).stdout


def test_ablate_shows_the_loss_of_exactly_the_plugins_that_the_model_needs(tmp_path: Path) -> None:
    tasks = [word for name in ("keep-a-plan", "follow-a-skill", "write-a-file") for word in ("--task", name)]
    plugins = [word for name in ("todo", "skills", "subagents", "uploads") for word in ("--plugin", name)]
    said: dict[str, Any] = json.loads(
        deep("ablate", "smoke", *tasks, *plugins, "--out", "out", "--output", "json", folder=tmp_path).stdout
    )
    parts = {each["part"]: each for each in said["parts"]}
    assert {name: each["lost"] for name, each in parts.items()} == {
        "todo": ["keep-a-plan"],
        "skills": ["follow-a-skill"],
        "subagents": [],
        "uploads": [],
    }
    assert parts["todo"]["tokens"] > 100
    assert parts["skills"]["tokens"] > 100
    assert parts["uploads"]["tokens"] == 0
    tool = deep(
        "ablate", "smoke", "--task", "keep-a-plan", "--tool", "write_todos", "--out", "tool", folder=tmp_path
    ).stdout
    assert "tool:write_todos" in tool
    assert tool.splitlines()[2].rstrip().endswith("keep-a-plan")
