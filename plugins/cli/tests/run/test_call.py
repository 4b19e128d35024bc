"""`deep call`: one tool of the agent, as typed, with no model and no key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

SKY = '''
"""Tools, and what watches over them."""
from deep_core import Deny, Processor, hookimpl

print("sky is here")


@hookimpl
def deep_check_call(call, context):
    return Deny("the moon is closed") if call.args.get("city") == "Moon" else None


@hookimpl
def deep_run_event(event, context):
    if type(event).__name__ == "ToolEvent":
        print("event", event.tool, event.plugin, event.outcome)


def masked(messages):
    for message in messages:
        for part in message.parts:
            if part.part_kind == "tool-return" and isinstance(part.content, str):
                part.content = part.content.replace("s3cret", "***")
    return messages


@hookimpl
def deep_history_processors(context):
    return [Processor("mask", masked, phase="redact")]


@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset, ModelRetry

    tools = FunctionToolset(id="sky")

    @tools.tool_plain(metadata={"tags": ["read"]})
    def forecast(city: str, days: int = 1, tags: list[str] = []) -> dict:
        "Tomorrow's weather."
        return {"city": city, "days": days, "tags": tags}

    @tools.tool_plain(metadata={"tags": ["read"]})
    def secret() -> str:
        "A secret."
        return "the word is s3cret"

    @tools.tool_plain(metadata={"tags": ["read"]})
    def breaks() -> str:
        "Breaks."
        raise ValueError("no wind")

    @tools.tool_plain(metadata={"tags": ["read"]})
    def asks_again() -> str:
        "Asks again."
        raise ModelRetry("name a city")

    @tools.tool_plain(metadata={"tags": ["read"]}, retries=0)
    def asks_once() -> str:
        "Asks once."
        raise ModelRetry("name a city")

    @tools.tool_plain(metadata={"tags": ["read"]}, defer_loading=True)
    def rare(number: int) -> str:
        "A rare tool."
        return f"rare {number}"

    return [tools]
'''


@pytest.fixture
def sky(deep: Any) -> Callable[..., Any]:
    """`deep call … -p sky.py`."""
    (deep.work / "sky.py").write_text(SKY, encoding="utf-8")

    def call(*arguments: str, **more: Any) -> Any:
        return deep("call", *arguments, "-p", "sky.py", **more)

    return call


@pytest.mark.slow
def test_the_result_is_all_of_stdout_and_the_call_is_reported_on_stderr(sky: Any) -> None:
    done = sky("forecast", "city=Oslo", "days=3", 'tags=["a"]').ok()
    assert done.out == '{"city":"Oslo","days":3,"tags":["a"]}\n'
    assert "✓ forecast city='Oslo', days=3" in done.err
    assert "[sky," in done.err
    assert "request" not in done.err


@pytest.mark.slow
def test_a_tool_works_on_the_current_folder_or_in_another_backend(deep: Any) -> None:
    assert deep("call", "read_file", "path=a.txt").ok().out.endswith("hello\n")
    (deep.work / "new.txt").write_text("one\ntwo\n", encoding="utf-8")
    deep("call", "write_file", "path=b.txt", "content=@new.txt").ok()
    assert (deep.work / "b.txt").read_text() == "one\ntwo\n"
    deep("call", "write_file", "path=c.txt", "content=x", "--backend", "memory").ok()
    assert not (deep.work / "c.txt").exists()


@pytest.mark.slow
def test_all_arguments_may_come_as_json_and_then_the_tool_alone_checks_them(sky: Any, deep: Any) -> None:
    assert sky("forecast", "--json", '{"city": "Oslo"}').ok().out == '{"city":"Oslo","days":1,"tags":[]}\n'
    (deep.work / "args.json").write_text('{"city": "Rome", "days": 2}', encoding="utf-8")
    assert sky("forecast", "--json", "@args.json").ok().out == '{"city":"Rome","days":2,"tags":[]}\n'
    done = sky("forecast", "--json", '{"city": 5}')
    assert done.code == 1
    assert "Input should be a valid string" in done.out
    assert sky("forecast", "city=Oslo", "--json", "{}").code == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["forcast", "city=Oslo"], "the agent has no tool 'forcast'. Did you mean 'forecast'? `deep explain` lists"),
        (["forecast", "citty=Oslo"], "forecast has no argument 'citty'. Did you mean 'city'? Type: deep call forecast"),
        (["forecast"], "forecast needs city. Type: deep call forecast city=TEXT [days=INTEGER] [tags=ARRAY]"),
        (["forecast", "city=Oslo", "days=x"], "days='x' is not of type integer"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_runs(sky: Any, arguments: list[str], said: str) -> None:
    done = sky(*arguments)
    assert (done.code, done.out) == (2, "")
    assert f"deep: {said}" in done.err
    assert "event forecast" not in done.err


def test_an_agent_without_tools_says_so(make_deep: Callable[..., Any]) -> None:
    done = make_deep("backends")("call", "forecast")
    assert done.code == 2
    assert "the agent has no tool; `deep plugins list` says why" in done.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "said"), [("breaks", "ValueError: no wind (plugin sky)\n"), ("asks_again", "name a city\n")]
)
def test_a_tool_that_fails_ends_with_1_and_prints_what_the_model_would_get(sky: Any, tool: str, said: str) -> None:
    done = sky(tool)
    assert (done.code, done.out) == (1, said)


def test_a_tool_that_ends_the_run_ends_with_1_and_says_why(sky: Any) -> None:
    done = sky("asks_once", "--output", "json")
    assert done.code == 1
    report = json.loads(done.out)
    assert (report["status"], report["result"]) == ("failed", "")
    assert "exceeded max retries count of 0" in report["error"]
    assert f"deep: {report['error']}" in done.err


@pytest.mark.slow
def test_the_plugins_around_the_tool_take_part(sky: Any) -> None:
    done = sky("secret").ok()
    assert done.out == "the word is ***\n"
    assert "sky is here" in done.err
    assert "event secret sky success" in done.err


@pytest.mark.slow
def test_a_tool_that_is_offered_on_demand_is_found_first(sky: Any) -> None:
    assert sky("rare", "number=3").ok().out == "rare 3\n"


@pytest.mark.slow
def test_a_tool_that_makes_an_agent_says_that_there_is_no_model(make_deep: Callable[..., Any]) -> None:
    done = make_deep("backends", "subagents")("call", "task", "description=Look around")
    assert done.code == 1
    assert "task calls a model, and deep call has none: try it with deep run" in done.out


# -- policy ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_a_plugin_denies_is_refused(sky: Any) -> None:
    done = sky("forecast", "city=Moon")
    assert (done.code, done.out) == (3, "Denied: the moon is closed\n")
    assert "denied by policy" in done.err


@pytest.mark.slow
def test_what_the_user_filters_out_is_not_there(sky: Any, deep: Any) -> None:
    deep.config('[plugins.sky]\ntools = "~name:forecast"\n')
    assert sky("forecast", "city=Oslo").code == 2
    sky("secret").ok()


@pytest.mark.slow
@pytest.mark.parametrize(("approve", "code", "made"), [("allow", 0, True), ("deny", 3, False), (None, 3, False)])
def test_a_call_that_needs_approval_runs_only_with_one(deep: Any, approve: str | None, code: int, made: bool) -> None:
    how = [] if approve is None else ["--approve", approve]
    done = deep("call", "execute", "command=printf made > b.txt", *how)
    assert done.code == code, done.err
    assert (deep.work / "b.txt").exists() is made


@pytest.mark.slow
def test_a_projects_own_file_cannot_approve_for_the_user(deep: Any) -> None:
    (deep.work / "deep.toml").write_text('[plugins.cli]\noptions = { approve = "allow" }\n', encoding="utf-8")
    assert deep("call", "execute", "command=printf made > b.txt").code == 3
    assert not (deep.work / "b.txt").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "code", "made"), [("y\n", 0, True), ("use ls\n", 3, False), ("\x03", 130, False)])
def test_on_a_terminal_the_question_is_that_of_deep_run(deep: Any, typed: str, code: int, made: bool) -> None:
    done = deep.typed("call", "execute", "command=printf made > b.txt", answers=[("run it?", typed)], env={})
    assert done.code == code, done.out
    assert "command: printf made > b.txt" in done.out
    assert (deep.work / "b.txt").exists() is made
    assert ("The user refused this call: use ls" in done.out) is (typed == "use ls\n")


@pytest.mark.slow
def test_the_json_report_is_the_whole_of_stdout(sky: Any) -> None:
    report = json.loads(sky("forecast", "city=Oslo", "--output", "json").ok().out)
    assert report.pop("ms") >= 0
    assert report == {
        "schema": 1,
        "status": "done",
        "exit_code": 0,
        "tool": "forecast",
        "plugin": "sky",
        "args": {"city": "Oslo"},
        "result": '{"city":"Oslo","days":1,"tags":[]}',
        "error": None,
        "approvals": [],
    }


@pytest.mark.slow
def test_the_json_report_of_a_refusal_says_who_decided(deep: Any) -> None:
    done = deep("call", "execute", "command=ls", "--output", "json")
    report = json.loads(done.out)
    assert (done.code, report["status"], report["exit_code"]) == (3, "refused", 3)
    assert report["approvals"] == [{"tool": "execute", "plugin": "filesystem", "approved": False, "by": "unanswered"}]
