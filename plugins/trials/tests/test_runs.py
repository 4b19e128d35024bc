"""Runs of trials: done once, whatever kills the harness; each trial alone; how a trial ends."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from deep_trials.budgets import Budget, parse_budget
from deep_trials.errors import TrialsError
from deep_trials.rows import Row, TrialsFile, read_rows
from deep_trials.runs import Contender, jobs_of, run_jobs

from plugins.trials.tests.written import Maker, row
from tests.drawn import many

pytestmark = pytest.mark.slow  # each starts processes
AGENTS = """
from pydantic_ai import Agent
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.exceptions import ModelHTTPError
import os, pathlib, time

def says(text):
    return Agent(FunctionModel(lambda messages, info: ModelResponse([TextPart(text)])))

plain = says("yes")
wrong = says("no")

def made():
    return says("yes")

async def made_for(place):
    assert pathlib.Path.cwd() == place.workspace
    return says("yes" if place.instruction == "Answer yes." else "no")

def refuse(messages, info):
    raise ModelHTTPError(400, "gone")

def crash(messages, info):
    raise RuntimeError("a defect")

refused = Agent(FunctionModel(refuse))
crashed = Agent(FunctionModel(crash))
home = says(os.environ["HOME"])

tools = Agent(FunctionModel(lambda messages, info: ModelResponse([ToolCallPart("no_such_tool", {})])))

def ends_process():
    os._exit(7)

def speaks():
    said = b'{"result": {"answer": "yes", "error": null, "kind": null, "cause": null, "calls": []}}'
    for pipe in range(3, 64):
        try:
            os.write(pipe, said + bytes([10]))
        except OSError:
            pass
    os._exit(7)

def nothing():
    return 5

async def deep():
    from deep_sessions import AgentDeps, DeepAgent
    model = FunctionModel(lambda messages, info: ModelResponse([TextPart("yes")]))
    return await DeepAgent.create(deps=AgentDeps(model=model))

async def with_a_file():
    from deep_sessions import AgentDeps, DeepAgent
    model = FunctionModel(lambda messages, info: ModelResponse([TextPart("yes")]))
    return await DeepAgent.create(deps=AgentDeps(model=model, session_store="sqlite:///runs.db"))

def deep_agent():
    from deep_core import create_deep_agent
    return create_deep_agent(FunctionModel(lambda messages, info: ModelResponse([TextPart("yes")])))
"""


@pytest.fixture
def agents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "acme_agents.py").write_text(AGENTS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "end"),
    [
        ("plain", "solved"),
        ("wrong", "unsolved"),
        ("made", "solved"),
        ("made_for", "solved"),
        ("deep", "solved"),
        ("deep_agent", "solved"),
        ("with_a_file", "solved"),
        ("refused", "provider"),
        ("crashed", "tool_error"),
        ("tools", "invalid_call"),
        ("ends_process", "harness"),
        ("speaks", "harness"),
        ("nothing", "harness"),
        ("absent", "harness"),
    ],
)
def test_any_agent_is_measured_and_its_end_is_named(
    name: str, end: str, agents: Path, make_suite: Maker, run_one: Callable[..., Row]
) -> None:
    found = run_one(make_suite(one={}), agent=f"acme_agents:{name}", model="")
    assert found.end == end, found
    assert found.passed == (end == "solved")
    if end in ("solved", "unsolved"):
        assert found.requests == 1
    else:
        assert found.note


def test_a_trial_has_a_home_of_its_own(agents: Path, make_suite: Maker, run_one: Callable[..., Row]) -> None:
    found = run_one(make_suite(one={"check": "trial.answer.endswith('/1/home')"}), agent="acme_agents:home", model="")
    assert found.end == "solved", found


def test_a_trial_is_a_session_that_can_be_opened(
    make_suite: Maker, run_one: Callable[..., Row], tmp_path: Path
) -> None:
    found = run_one(make_suite(one={"script": [{"calls": [{"name": "ls", "args": {}}]}, "yes"]}))
    store = f"sqlite:///{tmp_path / 'run'}/{found.store.removeprefix('sqlite:///')}"
    command = [sys.executable, "-m", "deep_cli", "sessions", "show", found.session, "--store", store]
    shown = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "Answer yes." in shown.stdout
    assert shown.stdout.rstrip().endswith("yes")


def test_a_row_has_the_keys_of_the_contract(make_suite: Maker, tmp_path: Path) -> None:
    run(make_suite(one={}), tmp_path / "run")
    line = json.loads((tmp_path / "run" / "trials.jsonl").read_text())
    promised = "schema task model agent n end passed scores tokens_in tokens_out usd seconds requests calls session"
    assert next(iter(line)) == "schema"
    assert {*promised.split()} <= line.keys()
    assert (line["schema"], line["task"], line["model"], line["agent"], line["n"]) == (
        1,
        "one",
        "trials:reference",
        "deep",
        1,
    )
    assert line["prompt"] == sum(line["plugins"].values()) > 0
    assert line["versions"]["deep-trials"]


def run(suite, folder: Path, n: int = 1, **how):
    return asyncio.run(run_jobs(jobs_of(suite, [Contender(model="trials:reference")], n), folder, **how))


def test_what_is_done_is_not_run_again(make_suite: Maker, tmp_path: Path) -> None:
    suite, seen = make_suite(one={}, two={}), []
    first = run(suite, tmp_path / "run", ended=lambda row, done, wanted: seen.append((done, wanted)))
    assert seen == [(1, 2), (2, 2)]
    second = run(suite, tmp_path / "run", n=2, ended=lambda row, done, wanted: seen.append((done, wanted)))
    assert seen[2:] == [(3, 4), (4, 4)]
    assert [each for each in second.rows if each.n == 1] == [*first.rows]


def test_trials_that_ended_in_a_certain_way_are_run_again(make_suite: Maker, tmp_path: Path) -> None:
    suite = make_suite(one={}, two={})
    file = TrialsFile(tmp_path / "run")
    for name in ("one", "two"):
        lost = row(name, passed=False, end="provider", model="trials:reference", suite="suite")
        file.add(lost if name == "one" else row(name, model="trials:reference", suite="suite", note="kept"))
    file.close()
    again = run(suite, tmp_path / "run", retry=["provider"])
    assert [(each.end, each.note) for each in again.rows] == [("solved", ""), ("solved", "kept")]
    assert len(read_rows(tmp_path / "run")) == 2


def test_a_folder_of_other_tasks_is_refused(make_suite: Maker, tmp_path: Path) -> None:
    run(make_suite(one={}), tmp_path / "run")
    with pytest.raises(TrialsError, match="choose another --out"):
        run(make_suite(one={"instruction": "Say yes."}), tmp_path / "run")


def test_a_folder_takes_more_tasks_of_its_suite(make_suite: Maker, tmp_path: Path) -> None:
    suite = make_suite(one={}, two={})
    run(replace(suite, tasks=suite.tasks[:1]), tmp_path / "run")
    assert [each.task for each in run(suite, tmp_path / "run").rows] == ["one", "two"]
    assert [each.task for each in read_rows(tmp_path / "run")] == ["one", "two"]
    (tmp_path / "run" / "run.json").with_suffix(".new").write_text(
        "{", encoding="utf-8"
    )  # of a process that was killed
    assert run(suite, tmp_path / "run").end == "done"


def test_two_processes_never_write_to_one_folder(tmp_path: Path) -> None:
    file = TrialsFile(tmp_path)
    with pytest.raises(TrialsError, match="another deep eval writes"):
        TrialsFile(tmp_path)
    file.keep([row("a")])
    with pytest.raises(TrialsError, match="another deep eval writes"):
        TrialsFile(tmp_path)
    file.close()
    TrialsFile(tmp_path).close()


@pytest.mark.parametrize("cut", range(1, 40, 7))
def test_a_torn_line_is_dropped(tmp_path: Path, cut: int) -> None:
    file = TrialsFile(tmp_path)
    file.add(row("a"))
    file.add(row("b"))
    file.close()
    path = tmp_path / "trials.jsonl"
    path.write_bytes(path.read_bytes()[:-cut])
    TrialsFile(tmp_path).close()
    assert [each.task for each in read_rows(tmp_path)] == ["a"]


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[]",
        "x",
        '{"schema": 2}',
        '{"schema": 1, "suite": "s", "task": "t", "model": "m", "agent": "a", "n": 1, "end": "gone", "passed": true}',
    ],
)
def test_a_line_that_is_no_trial_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "trials.jsonl").write_text(f"{line}\n", encoding="utf-8")
    with pytest.raises(TrialsError, match=r"trials\.jsonl:1: "):
        read_rows(tmp_path)


@pytest.mark.parametrize(
    ("text", "unit", "most"),
    [("5usd", "usd", 5), ("0.5 USD", "usd", 0.5), ("10min", "min", 10), ("3requests", "requests", 3)],
)
def test_budgets_are_read(text: str, unit: str, most: float) -> None:
    found = parse_budget(text)
    assert (found.unit, found.most) == (unit, most)


@pytest.mark.parametrize("text", ["", "5", "usd", "5eur", "-1usd", "0usd", "1e9usd", "5usdx", "nanusd", "5 usd 3"])
def test_what_is_no_budget_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no budget: write 5usd"):
        parse_budget(text)


def test_a_budget_ends_a_run_between_trials(make_suite: Maker, tmp_path: Path) -> None:
    suite = make_suite(a={}, b={}, c={})
    budget = Budget(2, "requests")
    outcome = run(suite, tmp_path / "run", budget=budget)
    assert (outcome.end, outcome.left, len(outcome.rows)) == ("budget", 1, 2)
    assert run(suite, tmp_path / "run").end == "done"


def test_usd_that_are_left_limit_a_trial() -> None:
    assert Budget(1.0, "usd").left([row(usd=0.25), row(usd=None)]) == 0.75


HARNESS = """
import asyncio, sys
from pathlib import Path
from deep_trials.runs import Contender, jobs_of, run_jobs
from deep_trials.suites import load_suite

suite = load_suite(Path(sys.argv[1]))
jobs = jobs_of(suite, [Contender("acme_agents:plain"), Contender("acme_agents:wrong")], 2)
asyncio.run(run_jobs(jobs, Path(sys.argv[2]), at_once=2))
"""


def test_a_harness_that_is_killed_goes_on_with_the_same_rows(agents: Path, make_suite: Maker, tmp_path: Path) -> None:
    """Killed at random moments and started again, also while it writes: the same rows as undisturbed, none twice."""
    suite = make_suite(a={}, b={}, c={})
    draw = random.Random(many(1, 2))
    command = [sys.executable, "-c", HARNESS, str(suite.folder)]
    began = time.monotonic()
    subprocess.run([*command, str(tmp_path / "calm")], check=True)
    whole = time.monotonic() - began
    kills = many(6, 50)
    rounds = 0
    while kills:
        rounds += 1
        folder = tmp_path / f"run-{rounds}"
        done = False
        while not done and kills:
            process = subprocess.Popen([*command, str(folder)])
            try:
                done = process.wait(draw.uniform(0.05, whole)) == 0
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()
                kills -= 1
        subprocess.run([*command, str(folder)], check=True)
        assert Counter(map(essence, read_rows(folder))) == Counter(map(essence, read_rows(tmp_path / "calm")))
    assert len({essence(each) for each in read_rows(tmp_path / "calm")}) == 12


def essence(row: Row) -> tuple[object, ...]:
    return (*row.key, row.end, row.passed, row.note, row.requests, row.calls, row.tokens_in, row.session, row.store)


def test_a_trial_ends_with_its_harness(agents: Path, make_suite: Maker, tmp_path: Path) -> None:
    mark = f"37.{time.time_ns() % 1_000_000}"
    slow = {
        "deep": 'approve = "execute"\nbackend = "local"',
        "script": [{"calls": [{"name": "execute", "args": {"command": f"echo > started; sleep {mark}"}}]}, "yes"],
    }
    suite = make_suite(one=slow)
    code = HARNESS.replace(
        '[Contender("acme_agents:plain"), Contender("acme_agents:wrong")], 2',
        '[Contender(model="trials:reference")], 1',
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(suite.folder), str(tmp_path / "run")])
    while not [*(tmp_path / "run").glob("work/*/*/*/workspace/started")]:
        assert process.poll() is None
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    while subprocess.run(["pgrep", "-f", f"sleep {mark}"], capture_output=True, check=False).stdout:
        time.sleep(0.05)
