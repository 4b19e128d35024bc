"""`deep explain`: the agent as assembled, without a model and without a key."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.environments import Distribution

SECTION = """
from deep_core import PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static("motto", "Measure twice.")]
"""


def test_the_json_is_in_the_documented_form(deep: Any) -> None:
    (deep.work / "motto.py").write_text(SECTION)
    found = json.loads(deep("explain", "--json", "-p", "motto.py").ok().out)
    parts = {"sections", "tools", "history_processors", "capabilities", "contributions", "left_out"}
    assert set(found) == {"schema", *parts, "totals", "window"}
    assert found["schema"] == 1
    (section,) = (section for section in found["sections"] if section["plugin"] == "motto")
    assert section == {
        "name": "motto", "plugin": "motto", "chars": 14, "tokens": 4, "live": False, "locked": False
    }  # fmt: skip
    tools = {tool["name"]: tool for tool in found["tools"]}
    assert set(tools["execute"]) == {"name", "plugin", "tokens", "approval", "deferred", "tags", "source"}
    assert (tools["execute"]["plugin"], tools["execute"]["approval"]) == ("filesystem", "always")
    assert {"id": "deep.policy", "plugin": "deep_core"} in found["capabilities"]
    assert set(found["totals"]) == {"chars", "tokens"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("config", "window", "words"),
    [
        ('model = "openai-chat:gpt-unheard"', (128_000, "guess"), "128,000 tokens (a guess: nothing says it;"),
        ('model = "anthropic:claude-sonnet-4-5"', (200_000, "list"), "200,000 tokens (from the list of known"),
        ('model = {model = "x", context_window = 9000}', (9_000, "configured"), "9,000 tokens (agent.model.context_"),
        ("", (128_000, "guess"), "window of the model (none is configured): 128,000 tokens (a guess"),
    ],
)
def test_the_window_is_shown_with_who_says_it(make_deep: Any, config: str, window: tuple[int, str], words: str) -> None:
    deep = make_deep("backends", "summarization")
    deep.config(f"[agent]\n{config}\n")
    found = json.loads(deep("explain", "--json").ok().out)["window"]
    assert (found["tokens"], found["source"]) == window
    assert words in " ".join(deep("explain").ok().out.split())


@pytest.mark.slow
def test_the_table_names_every_part_and_its_plugin(deep: Any) -> None:
    out = deep("explain").ok().out
    for said in (
        "Prompt sections",
        "Tools",
        "edit_file",
        "filesystem",
        "History processors",
        "deep.policy",
        "tokens a",
    ):
        assert said in out


@pytest.mark.slow
def test_the_numbers_of_the_table_add_up(deep: Any) -> None:
    (deep.work / "motto.py").write_text(SECTION)
    found = json.loads(deep("explain", "--json", "-p", "motto.py").ok().out)
    parts = [*found["sections"], *(tool for tool in found["tools"] if not tool["deferred"])]
    total = sum(part["tokens"] for part in parts)
    assert found["totals"]["tokens"] == total > 0
    last = deep("explain", "-p", "motto.py").ok().out.splitlines()[-1]
    told, _, by_plugin = last.partition(" tokens a request (estimate): ")
    assert int(told.replace(",", "")) == total
    assert sum(int(text.split()[1].replace(",", "")) for text in by_plugin.split(", ")) == total


@pytest.mark.slow
def test_a_plugin_that_fails_for_the_agent_is_listed_with_the_reason(make_deep: Any) -> None:
    code = SECTION.replace("return", "return 1 / 0,")
    deep = make_deep(others=(Distribution("acme-broken", {"broken": "acme_broken"}, {"acme_broken.py": code}),))
    found = json.loads(deep("explain", "--json").ok().out)
    (item,) = found["left_out"]
    assert (item["plugin"], item["status"]) == ("broken", "failed")
    assert "hook deep_prompt_sections: ZeroDivisionError" in item["reason"]
    out = deep("explain").ok().out
    assert "Left out, because they failed" in out
    assert "ZeroDivisionError" in out


def test_the_prompt_alone_is_what_is_sent(deep: Any) -> None:
    (deep.work / "motto.py").write_text(SECTION)
    assert deep("explain", "--prompt", "-p", "motto.py").ok().out == "Measure twice.\n"


def test_a_configured_model_needs_no_key_to_be_explained(deep: Any) -> None:
    deep.config('[agent]\nmodel = "openai:gpt-5.2"\n')
    deep("explain").ok()


def test_it_works_without_any_other_plugin(make_deep: Any) -> None:
    assert json.loads(make_deep()("explain", "--json").ok().out)["tools"] == []


def test_two_plugins_with_one_tool_name_both_and_the_ways_out(deep: Any) -> None:
    (deep.work / "twin.py").write_text(
        "from deep_core import hookimpl\n"
        "@hookimpl\n"
        "def deep_toolsets(context):\n"
        "    from pydantic_ai import FunctionToolset\n"
        "    tools = FunctionToolset()\n"
        "    @tools.tool_plain\n"
        "    def ls() -> str:\n"
        "        return ''\n"
        "    return [tools]\n"
    )
    done = deep("explain", "-p", "twin.py")
    assert done.code == 1
    assert "filesystem 0.1.0 (deep-filesystem)" in done.err
    assert "twin (given by hand)" in done.err
    assert 'prefix = "' in done.err


def test_more_of_the_log_is_shown_on_request(deep: Any) -> None:
    text = SECTION.replace("    return", "    context.logger.info('left out %s', 'a part')\n    return")
    (deep.work / "motto.py").write_text(text)
    assert "deep: left out a part\n" in deep("explain", "-v", "-p", "motto.py").ok().err
    assert "left out" not in deep("explain", "-p", "motto.py").ok().err


OWN = """
from deep_core import create_deep_agent
from pydantic_ai import Agent

shop = create_deep_agent("anthropic:claude-sonnet-4-5", instructions="You know our shop.", defer_model_check=True)
plain = Agent("openai:gpt-5.2", defer_model_check=True)
"""


@pytest.mark.slow
def test_an_agent_of_ones_own_is_explained_with_its_model(make_deep: Any) -> None:
    deep = make_deep("backends", "filesystem", "sessions")
    (deep.work / "own.py").write_text(OWN)
    data = {"model": "openai:gpt-5.2", "instructions": "You review.", "deep": {"agent": {"tool_filter": "read"}}}
    (deep.work / "reviewer.json").write_text(json.dumps(data))
    found = json.loads(deep("explain", "--json", "--agent", "reviewer.json").ok().out)
    assert {tool["name"] for tool in found["tools"]} == {"ls", "read_file", "glob", "grep"}
    assert (found["window"]["model"], found["window"]["source"]) == ("openai:gpt-5.2", "list")
    assert deep("explain", "--prompt", "--agent", "own.py:shop").ok().out == "You know our shop.\n"
    assert "window of anthropic:claude-sonnet-4-5: 200,000 tokens" in deep("explain", "--agent", "own.py:shop").ok().out
    (deep.work / "plain.json").write_text('{"model": "openai:gpt-5.2"}')
    for words, said in (
        (["--agent", "own.py:plain"], "no plugin of deep is in this agent"),
        (["--agent", "plain.json"], "no plugin of deep is in this agent"),
        (["--agent", "own.py:shop", "-p", "own.py"], "leave out --plugin and --config"),
        (["--agent", "gone.json"], "there is no such file"),
    ):
        done = deep("explain", *words)
        assert (done.code, said in done.err) == (2, True), done.err
