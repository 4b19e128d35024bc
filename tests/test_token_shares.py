"""What the seven features cost in every request, by plugin: as `explain` says, as it goes over the wire, as recorded.

A plugin that grows past its share in `token_shares.json` fails here. To record new shares on purpose:

    .venv/bin/python -m tests.test_token_shares
"""

from __future__ import annotations

import asyncio
import json
from importlib import import_module
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_skills
import deep_subagents
import deep_summarization
import deep_todo
import deep_uploads
import pytest
from pydantic_ai.models.test import TestModel

from deep_core import Explanation, Kernel, create_default_deps
from deep_core.agent.explain import tokens
from tests.stubs import Script
from tests.test_wire import PROVIDERS, both

RECORDED = Path(__file__).with_name("token_shares.json")
RECORD = "If it is worth that, record it: .venv/bin/python -m tests.test_token_shares"
FEATURES: list[Any] = [
    deep_backends,
    deep_filesystem,
    deep_skills,
    deep_subagents,
    deep_summarization,
    deep_todo,
    deep_uploads,
]
MOST_CHARS, MOST_TOKENS = 6_000, 1_500
"""Contract, section 7: of prompt and schemas, in every request."""
MOST_BREADTH = 300
"""Of tokens that the plugins which wrap others' work add while nothing is configured."""
OBJECT = len(',"additionalProperties":false')
"""What the OpenAI adapter adds to each object in a schema; `explain` measures what the plugin wrote."""


def explained(**how: Any) -> Explanation:
    """The agent with the seven features and a backend that runs commands: all thirteen tools."""
    with Kernel(plugins=FEATURES, discover=False, strict=True, **how) as kernel:
        return kernel.explain(kernel.create_agent(TestModel(), backend="local"))


def shares(**how: Any) -> dict[str, int]:
    """Tokens of each plugin, also of those that cost nothing."""
    costs = explained(**how).by_plugin()
    names = (module.__name__.removeprefix("deep_") for module in FEATURES)
    return {name: costs.get(name, 0) for name in sorted(names)}


def test_breadth_costs_little_until_it_is_configured() -> None:
    """Everything of breadth installed and nothing configured: at most 300 tokens more in a request."""
    names = ("ask", "capabilities.named_capabilities", "folders", "guards", "mcp", "memories", "web_tools")
    breadth = [import_module(f"deep_{name}") for name in names]
    with Kernel(plugins=[*FEATURES, *breadth], discover=False, strict=True) as kernel:
        found = kernel.explain(kernel.create_agent(TestModel(), backend="local"))
    more = sum(found.by_plugin().values()) - sum(explained().by_plugin().values())
    assert 0 < more <= MOST_BREADTH, found.by_plugin()


def sent(provider: str) -> dict[str, Any]:
    """The first request of a conversation, as the provider got it."""
    make_stub, make_model = PROVIDERS[provider]
    with make_stub(Script("ok")) as stub, Kernel(plugins=FEATURES, discover=False, strict=True) as kernel:
        agent = kernel.create_agent(make_model(stub), backend="local")
        asyncio.run(agent.run("hi", deps=create_default_deps(kernel=kernel)))
    (body,) = stub.requests
    return body


def compact(value: Any) -> int:
    """Characters of a value as JSON."""
    return len(json.dumps(value, separators=(",", ":")))


def tools_of(body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The tools of a request, by name: name, description and schema, without the provider's frame."""
    found: dict[str, dict[str, Any]] = {}
    for tool in body["tools"]:
        inner = tool.get("function", tool)
        schema = inner.get("parameters") or inner["input_schema"]
        found[inner["name"]] = {"name": inner["name"], "description": inner["description"], "parameters": schema}
    return found


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working directory without skills."""
    monkeypatch.chdir(tmp_path)


def test_seven_features_fit_the_budget() -> None:
    explanation = explained()
    assert len(explanation.tools) == 13
    assert explanation.chars <= MOST_CHARS
    assert explanation.tokens <= MOST_TOKENS
    assert sum(explanation.by_plugin().values()) <= MOST_TOKENS


@both
def test_the_whole_of_a_request_fits_the_budget_at_the_wire(provider: str) -> None:
    body = sent(provider)
    # With the provider's frames and everything: all that is not the user's "hi".
    cost = compact(body["tools"]) + compact(body.get("system", "")) + compact(body["messages"])
    assert cost <= MOST_CHARS, f"{cost} characters of tools and messages at {provider}"


@both
def test_explain_says_what_goes_over_the_wire(provider: str) -> None:
    """The rule: a tool costs at the wire what `explain` says, to the token, and what an adapter adds to objects."""
    explanation, tools = explained(), tools_of(sent(provider))
    assert {tool.name for tool in explanation.tools} == set(tools)
    for tool in explanation.tools:
        chars = compact(tools[tool.name])
        added = OBJECT * json.dumps(tools[tool.name]["parameters"]).count('"type": "object"')
        assert tokens(chars - added) <= tool.tokens <= tokens(chars), tool


def test_a_deferred_tool_counts_for_no_plugin() -> None:
    costs = explained(config={"plugins": {"todo": {"defer": True}}}).by_plugin()
    left = [section.tokens for section in explained().sections if section.plugin == "todo"]
    assert costs.get("todo", 0) == sum(left)


def grown(recorded: dict[str, int], now: dict[str, int]) -> list[str]:
    """Who costs more than was recorded."""
    return [
        f"{name}: {share} tokens a request, now {now[name]}" for name, share in recorded.items() if now[name] > share
    ]


def test_no_plugin_grows_past_its_share() -> None:
    recorded, now = json.loads(RECORDED.read_text(encoding="utf-8")), shares()
    assert recorded.keys() == now.keys(), f"plugins came or went. {RECORD}"
    more = grown(recorded, now)
    assert more == [], f"every word of it is paid in every request: {'; '.join(more)}. {RECORD}"


def test_a_plugin_that_grows_is_named() -> None:
    longer = shares(config={"plugins": {"todo": {"prefix": "planning_and_tracking"}}})
    (line,) = grown(shares(), longer)
    assert line.startswith("todo: ")


if __name__ == "__main__":
    RECORDED.write_text(json.dumps(shares(), indent=2) + "\n", encoding="utf-8")
    print(RECORDED.read_text(encoding="utf-8"))
