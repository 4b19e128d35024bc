"""What the kernel knows of one tool: recorded at attribution, in the tool's metadata."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai import FunctionToolset, ToolDefinition
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import AbstractToolset

from deep_core import STANDARD_TAGS, ToolFacts, tool_facts
from tests.environments import REPOSITORY
from tests.plugins_by_hand import Tools, kernel_of, plugin, run, scripted
from tests.stubs import Call


def definitions(*plugins: object, config: Any = None, **how: Any) -> dict[str, ToolDefinition]:
    """Every tool, as the model's request carries it."""
    model = TestModel(call_tools=[])
    run(kernel_of(*plugins, config=config).create_agent(model, **how))
    parameters = model.last_model_request_parameters
    assert parameters is not None
    return {definition.name: definition for definition in parameters.function_tools}


def facts_of(*plugins: object, config: Any = None, **how: Any) -> dict[str, ToolFacts]:
    return {name: tool_facts(tool) for name, tool in definitions(*plugins, config=config, **how).items()}


def test_the_facts_about_a_tool_are_in_the_request_that_a_model_gets() -> None:
    tools = Tools("forecast", tags=["read", "network"]).add("launch", requires_approval=True)

    def mine() -> str:
        return "mine"

    found = facts_of(
        plugin("weather", toolsets=[tools.toolset]), config={"plugins": {"weather": {"prefix": "w"}}}, tools=[mine]
    )
    assert found == {
        "w_forecast": ToolFacts("w_forecast", "forecast", "weather", ("read", "network")),
        "w_launch": ToolFacts("w_launch", "launch", "weather", ("write",), asks=True),
        "mine": ToolFacts("mine", "mine"),
    }


def test_the_search_for_tools_on_demand_is_known_as_such() -> None:
    found = facts_of(plugin("web", toolsets=[Tools("past").toolset]), config={"plugins": {"web": {"defer": True}}})
    assert (found["search_tools"].searches, found["search_tools"].tags) == (True, ("read",))


def test_other_packages_read_plugin_original_and_tags_as_plain_metadata() -> None:
    web = plugin("weather", toolsets=[Tools("forecast", tags=["read"]).toolset])
    metadata: Any = definitions(web, config={"plugins": {"weather": {"prefix": "w"}}})["w_forecast"].metadata
    assert (metadata["plugin"], metadata["original"], [*metadata["tags"]]) == ("weather", "forecast", ["read"])


class Renaming(AbstractCapability[Any]):
    """Changes what it wraps: the description, and what the metadata says of the plugin."""

    def get_wrapper_toolset(self, toolset: AbstractToolset[Any]) -> AbstractToolset[Any]:
        async def prepare(ctx: Any, definitions: list[Any]) -> list[Any]:
            changes = {"plugin": "guard", "tags": ["read"]}
            return [replace(d, description="x", metadata={**(d.metadata or {}), **changes}) for d in definitions]

        return toolset.prepared(prepare)


def test_the_facts_survive_what_others_wrap_around_the_tools() -> None:
    found = facts_of(plugin("pad", toolsets=[Tools("launch").toolset]), capabilities=[Renaming()])
    assert found["launch"] == ToolFacts("launch", "launch", "pad")


def test_a_tool_cannot_bring_facts_of_its_own() -> None:
    toolset = FunctionToolset[Any](id="web")
    toolset.add_function(
        lambda: "x",
        name="fetch",
        description="x",
        metadata={
            "deep": {"plugin": "guard", "asks": False},
            "plugin": "guard",
            "original": "look",
            "tags": ["execute"],
        },
    )
    assert facts_of(plugin("web", toolsets=[toolset])) == {
        "fetch": ToolFacts("fetch", "fetch", "web", ("execute",), asks=True)
    }


def test_unreadable_tags_end_the_run_before_a_call_passes_a_filter() -> None:
    toolset = FunctionToolset[Any](id="web")
    toolset.add_function(lambda: "x", name="fetch", description="x", metadata={"tags": "network"})
    with pytest.raises(TypeError, match="tool 'fetch': tags are a list of strings, not 'network'"):
        kernel_of(plugin("web", toolsets=[toolset])).create_agent(scripted(Call("fetch", {})), tool_filter="~network")


def test_only_the_facts_module_reads_the_facts_from_metadata() -> None:
    reads = re.compile(r"metadata or \{\}\)(\[|\.get\()[\"'](plugin|original|tags|approval|searches|deep)[\"']")
    found = {
        path.relative_to(REPOSITORY).as_posix()
        for folder in ("deep_core", "plugins")
        for path in (REPOSITORY / folder).rglob("*.py")
        if "tests" not in path.parts and reads.search(path.read_text("utf-8"))
    }
    assert found == set()


def test_every_standard_tag_says_what_its_tools_do() -> None:
    assert all(tag.meaning for tag in STANDARD_TAGS.values())
    hints = [tag.mcp_hint for tag in STANDARD_TAGS.values() if tag.mcp_hint]
    assert len(hints) == len(set(hints)) > 1
