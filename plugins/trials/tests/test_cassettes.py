"""`record` and `replay`: the same rows without a model, no key in the file, and what changed a prompt is named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deep_trials.cassettes import differences, read_cassette
from deep_trials.errors import TrialsError
from deep_trials.rows import read_rows
from deep_trials.tapes import Asked, Cleaner, Player, TapeError, compact, secrets_of

from plugins.trials.tests.test_commands import deep
from plugins.trials.tests.written import Maker, row
from tests.stubs import Call, Failure, OpenAIStub, Script, Turn

RECORDED = Path(__file__).parent / "recorded"
KEY = "acme-0123456789-secret"
TOOL = ("tool ls", "filesystem", "1")
SECTION = ("section rules", "weather", "1")
MESSAGE = ("message 1, user-prompt", "", "1")


def player(*items: tuple[str, str, str], arrived: Any = None) -> Player:
    answer = {"model": "m", "items": items, "arrived": arrived or items, "facts": {}, "response": {"say": "yes"}}
    return Player(Cleaner("/now", {}), compact([answer]))


def test_the_same_request_gets_the_recorded_answer() -> None:
    parts = (SECTION, TOOL, MESSAGE)
    assert player(*parts).take(Asked("m", parts, parts)) == {"response": {"say": "yes"}}


@pytest.mark.parametrize(
    ("now", "said"),
    [
        ((("section rules", "weather", "2"), TOOL, MESSAGE), "section rules of plugin weather changed"),
        ((SECTION, ("tool ls", "filesystem", "2"), MESSAGE), "tool ls of plugin filesystem changed"),
        ((SECTION, MESSAGE), "tool ls of plugin filesystem is gone"),
        ((SECTION, TOOL, ("section tide", "sea", "1"), MESSAGE), "section tide of plugin sea is new"),
        ((SECTION, TOOL, ("message 1, user-prompt", "", "2")), "message 1, user-prompt changed"),
        (
            (("section rules", "weather", "2"), TOOL, ("message 1, user-prompt", "", "2")),
            "section rules of plugin weather changed",
        ),
        ((TOOL, SECTION, MESSAGE), "the order of its parts changed"),
    ],
)
def test_what_changed_is_named_with_its_plugin(now: Any, said: str) -> None:
    tape = player(SECTION, TOOL, MESSAGE)
    with pytest.raises(TapeError) as failed:
        tape.take(Asked("m", now, now))
    assert str(failed.value) == tape.problem == f"not the recorded request: {said}"


def test_what_only_wrapped_models_change_is_named() -> None:
    tape = player(TOOL, arrived=[("settings", "", "1")])
    with pytest.raises(TapeError, match="request: settings changed"):
        tape.take(Asked("m", [TOOL], [("settings", "", "2")]))


def test_a_request_too_many_is_named() -> None:
    tape = player(TOOL)
    tape.take(Asked("m", [TOOL], [TOOL]))
    with pytest.raises(TapeError, match="m is asked once more than when it was recorded"):
        tape.take(Asked("m", [TOOL], [TOOL]))
    with pytest.raises(TapeError, match="no answer of other was recorded"):
        tape.facts("other")


def test_keys_and_folders_are_no_part_of_a_tape() -> None:
    environment = {"ACME_API_KEY": KEY, "A_TOKEN": "short", "PATH": "/usr/local/bin", "DB_PASSWORD": f"{KEY}-longer"}
    cleaner = Cleaner("/runs/1", secrets_of(environment))
    kept = cleaner.keep(
        {"a": [f"key {KEY}", f"{KEY}-longer"], KEY: "/runs/1/x", "b": "sk-proj-0123456789abcdefghij", "n": 1}
    )
    assert kept == {
        "a": ["key {ACME_API_KEY}", "{DB_PASSWORD}"],
        "{ACME_API_KEY}": "{{trial-folder}}/x",
        "b": "{key}",
        "n": 1,
    }
    assert Cleaner("/runs/2", {}).back(kept["{ACME_API_KEY}"]) == "/runs/2/x"


def test_digests_do_not_depend_on_place_day_and_speed() -> None:
    first = Cleaner("/a/1", {}, ("2026-11-28",)).digest("/a/1/x on 2026-11-28 in 0.35s by pyd_ai_0aff")
    assert Cleaner("/b/2", {}, ("2027-01-01",)).digest("/b/2/x on 2027-01-01 in 12s by pyd_ai_11") == first
    assert Cleaner("/b/2", {}, ("2027-01-01",)).digest("/b/3/x on 2027-01-01 in 12s by pyd_ai_11") != first


def test_a_trial_that_ends_otherwise_is_a_difference() -> None:
    before, after = row("a", requests=2), row("a", passed=False, requests=3, note="why")
    (found,) = differences([before, row("b")], [after, row("b")])
    assert (found.task, found.what, found.recorded, found.played, found.note) == (
        "a",
        "end",
        "solved",
        "unsolved",
        "why",
    )
    assert differences([before], [replace(before, seconds=9.0, session="other")]) == []


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"kind": "deep-cassette", "schema": 2}', "x"])
def test_a_file_that_is_no_cassette_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "c.jsonl").write_text(text, encoding="utf-8")
    with pytest.raises(TrialsError, match=r"c\.jsonl is no cassette: "):
        read_cassette(tmp_path / "c.jsonl")


AGENT = """
[plugins.trials.options.agents.acme]
plugins = {{ disable = {disable} }}
agent = {{ model = {{ provider = "acme", model = "small", base_url = "{address}/v1", api_key_env = "ACME_API_KEY", \
retry = {{ backoff_ms = 1 }} }} }}
"""


def configure(home: Path, address: str, disable: str = "[]") -> None:
    (home / "config" / "deep").mkdir(parents=True, exist_ok=True)
    (home / "config" / "deep" / "config.toml").write_text(
        AGENT.format(address=address, disable=disable), encoding="utf-8"
    )


@pytest.mark.slow
def test_a_run_at_a_server_is_played_without_server_and_key(
    make_suite: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers, errors, retries, parallel calls and a subagent; the model says its key and the folder."""
    monkeypatch.setenv("ACME_API_KEY", KEY)
    folder = make_suite(
        one={
            "check": "trial.used('ls') == 2 and trial.used('task') == 1 and 'yes' in trial.answer",
            "files": {"a": "x"},
        }
    ).folder
    turns = [
        Failure(503, "busy"),
        Turn(f"My key is {KEY}.", (Call("ls", {"path": "."}), Call("ls", {"path": "."}))),
        Turn(calls=(Call("task", {"description": "Look around."}),)),
        Turn("Nothing there."),
        Turn("yes"),
    ]
    with OpenAIStub(Script(*turns)) as server:
        configure(tmp_path, server.base_url.removesuffix("/v1"))
        deep("record", str(folder), "c.jsonl", "--agent", "acme", "--out", "rec", folder=tmp_path)
        asked = len(server.requests)
    assert asked == len(turns)
    monkeypatch.delenv("ACME_API_KEY")
    assert KEY not in (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    assert "My key is {ACME_API_KEY}." in (tmp_path / "c.jsonl").read_text(encoding="utf-8")
    done = deep("replay", "c.jsonl", "--out", "rep", folder=tmp_path)
    assert "1 of 1 trials as recorded" in done.stdout
    (before,), (after,) = read_rows(tmp_path / "rec"), read_rows(tmp_path / "rep")
    assert before.end == "solved"
    assert differences([before], [after]) == []

    lines = [json.loads(line) for line in (tmp_path / "c.jsonl").read_text(encoding="utf-8").splitlines()]
    lines[0]["contenders"][0]["config"]["plugins"]["disable"] = ["todo"]
    (tmp_path / "less.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    said = deep("replay", "less.jsonl", "--out", "less", "--output", "json", folder=tmp_path, code=1)
    (difference,) = json.loads(said.stdout)["differences"]
    assert "tool write_todos of plugin todo is gone" in difference["note"]
    assert " of plugin " not in difference["note"].replace("of plugin todo", "")


@pytest.mark.slow
def test_agents_of_modules_are_recorded_and_their_tasks_must_be_the_same(make_suite: Maker, tmp_path: Path) -> None:
    (tmp_path / "acme_agents.py").write_text(
        "from pydantic_ai import Agent\nfrom pydantic_ai.models.function import FunctionModel\n"
        "from pydantic_ai.messages import ModelResponse, TextPart\nimport time\n"
        "plain = Agent(FunctionModel(lambda m, i: ModelResponse([TextPart(f'yes at {time.time_ns()}')])))\n"
        "async def deep():\n"
        "    from deep_sessions import AgentDeps, DeepAgent\n"
        "    return await DeepAgent.create(deps=AgentDeps(model=plain.model))\n",
        encoding="utf-8",
    )
    suite = make_suite(one={"check": "'yes' in trial.answer"})
    agents = ["--agent", "acme_agents:plain", "--agent", "acme_agents:deep"]

    deep("record", str(suite.folder), "c.jsonl", *agents, "--out", "rec", folder=tmp_path)
    assert "2 of 2 trials as recorded" in deep("replay", "c.jsonl", "--out", "rep", folder=tmp_path).stdout
    said = {each.agent: said_last(tmp_path / "rec", each.folder) for each in read_rows(tmp_path / "rec")}
    again = {each.agent: said_last(tmp_path / "rep", each.folder) for each in read_rows(tmp_path / "rep")}
    assert said == again
    (suite.folder / "one" / "instruction.md").write_text("Say yes.", encoding="utf-8")
    failed = deep("replay", "c.jsonl", "--out", "new", folder=tmp_path, code=2)
    assert "one is not the task that was recorded: record it again" in failed.stderr


WEATHER = """
from deep_core import Kernel, PromptSection, hookimpl
from deep_sessions import AgentDeps, DeepAgent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

class Weather:
    @hookimpl
    def deep_prompt_sections(self, context):
        return [PromptSection.static("units", "Temperatures are in celsius.")]

async def agent():
    model = FunctionModel(lambda messages, info: ModelResponse([TextPart("yes")]))
    return await DeepAgent.create(deps=AgentDeps(model=model, kernel=Kernel(plugins=[Weather()], read_config=False)))
"""


@pytest.mark.slow
def test_a_section_that_a_plugin_changed_is_named_with_it(make_suite: Maker, tmp_path: Path) -> None:
    folder = make_suite(one={}).folder
    (tmp_path / "acme_weather.py").write_text(WEATHER, encoding="utf-8")
    deep("record", str(folder), "c.jsonl", "--agent", "acme_weather:agent", "--out", "rec", folder=tmp_path)
    deep("replay", "c.jsonl", "--out", "same", folder=tmp_path)
    (tmp_path / "acme_weather.py").write_text(WEATHER.replace("celsius", "kelvin"), encoding="utf-8")
    done = deep("replay", "c.jsonl", "--out", "new", folder=tmp_path, code=1)
    assert "not the recorded request: section units of plugin weather changed\n" in done.stdout
    assert "0 of 1 trials as recorded" in done.stdout


def said_last(run: Path, folder: str) -> str:
    said: Mapping[str, Any] = json.loads((run / folder / "transcript.json").read_text(encoding="utf-8"))
    return said["answer"]


@pytest.mark.slow
def test_what_was_run_without_being_recorded_is_no_cassette(make_suite: Maker, tmp_path: Path) -> None:
    folder = make_suite(one={}).folder
    deep("run", str(folder), "--out", "out", folder=tmp_path)
    failed = deep("record", str(folder), "c.jsonl", "--out", "out", folder=tmp_path, code=2)
    assert "one was run there without being recorded: choose another --out" in failed.stderr
    assert not (tmp_path / "c.jsonl").exists()


@pytest.mark.slow
def test_answers_of_a_real_model_are_played(tmp_path: Path) -> None:
    """SmolLM2's answers, recorded by tests/test_real_models.py. A changed prompt: `DEEP_RECORD=1 make test-models`."""
    done = deep("replay", str(RECORDED / "smollm2.jsonl"), "--out", "rep", folder=tmp_path)
    assert "2 of 2 trials as recorded" in done.stdout
