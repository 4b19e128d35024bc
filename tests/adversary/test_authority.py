"""Rights that were not given: through subagents, hints, agents of folders, and MCP clients."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from deep_folders.claude_plugin import read_claude_plugin
from deep_subagents import SubAgentConfig, SubagentsOptions
from deep_universe import agent_tools, make_mcp_server
from deep_universe.drivers.mcp import McpDriver
from pydantic_ai import ToolDefinition
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import STANDARD_TAGS, ToolExpression, ToolFacts, create_deep_agent, create_default_deps, tool_facts

# -- what a subagent may do counts -------------------------------------------------------------------------------------

FILTERS = (
    "read",
    "~write",
    "~execute",
    "~network",
    "~destructive",
    "read & ~network",
    "read & ~write",
    "~write & ~execute",
    "name:task | name:read_file",
    "name:task | name:write_file",
    "name:task | name:execute",
    "plugin:filesystem | plugin:subagents",
    "prefix:read_ | name:task",
    "~name:execute",
    "subagent | read",
    "~subagent",
)


def _offered(**how: Any) -> dict[str, ToolFacts]:
    seen: list[ToolDefinition] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.extend(info.function_tools)
        return ModelResponse([TextPart("done")])

    asyncio.run(create_deep_agent(FunctionModel(answer), backend="memory", **how).run("go", deps=create_default_deps()))
    return {tool.name: tool_facts(tool) for tool in seen}


@pytest.mark.parametrize("rule", FILTERS)
def test_task_has_the_tags_of_all_that_its_subagents_may_call(rule: str) -> None:
    offered = _offered(tool_filter=rule)
    task = offered.pop("task", None)
    allowed = {tag for facts in offered.values() for tag in facts.tags}
    if task is not None:
        assert {*task.tags} >= {"read", "subagent", *allowed}
        assert ToolExpression.parse(rule).matches(task)
    elif "subagent" not in rule:
        assert not ToolExpression.parse(rule).matches(ToolFacts("task", "task", "subagents", ("read", *allowed)))


def test_a_function_of_a_type_counts() -> None:
    def burn(path: str) -> str:
        return path

    kind = SubAgentConfig(name="burner", description="Burns.", instructions="Burn.", functions=(burn,))
    offered = _offered(tool_filter="read | subagent", plugins=[SubagentsOptions(types=(kind,))])
    assert "write" in offered["task"].tags


@pytest.mark.parametrize("rule", ["write", "execute", "network", "destructive"])
def test_delegation_asks_only_for_what_it_does_itself(rule: str) -> None:
    asks = _offered(interrupt_on=rule) if rule in ("write", "execute") else _offered()
    assert not asks["task"].asks


# -- hints -------------------------------------------------------------------------------------------------------------

TAGS = [
    [],
    *([tag] for tag in STANDARD_TAGS),
    *(["read", tag] for tag in STANDARD_TAGS),
    ["read", "write", "execute", "network", "destructive"],
    ["read", "subagent"],
    ["read", "subagent", "write"],
    ["subagent"],
]
CLAIMS: list[dict[str, Any]] = [{}, {"readOnlyHint": True}, {"destructiveHint": False, "readOnlyHint": True}]


@pytest.mark.parametrize("claims", CLAIMS)
@pytest.mark.parametrize("tags", TAGS)
def test_a_tool_is_read_only_for_clients_only_if_it_reads_only(tags: list[str], claims: dict[str, Any]) -> None:
    tool = ToolDefinition(name="x", metadata={"tags": tags, "annotations": claims})
    annotations = McpDriver().render([tool])[0].get("annotations", {})
    known = {*(tags or tool_facts(tool).tags)}
    assert annotations.get("readOnlyHint", False) <= (
        "read" in known and not known & {"write", "execute", "destructive"}
    )
    if "destructive" in known:
        assert annotations["destructiveHint"] is True
    if "network" in known:
        assert annotations["openWorldHint"] is True


@pytest.mark.parametrize("rule", ["read", "name:task", "name:task | name:read_file", "subagent", "~execute"])
def test_a_server_of_some_tools_serves_no_subagents_that_have_more(rule: str) -> None:
    async def served() -> list[str]:
        async with agent_tools(create_deep_agent(backend="memory")) as tools:
            try:
                server = make_mcp_server(tools, only=ToolExpression.parse(rule))
            except ValueError:
                return []  # nothing is left to serve
            from mcp import Client

            async with Client(server) as client:
                return [tool.name for tool in (await client.list_tools()).tools]

    assert "task" not in asyncio.run(served())


# -- agents of folders -------------------------------------------------------------------------------------------------

NONE, ALL = "", None
AGENTS: dict[str, str | None] = {
    # the lines of an agent's file: the tools that it gets
    "": ALL,
    "tools: []": NONE,
    "tools: ''": NONE,
    'tools: ""': NONE,
    "tools:": NONE,
    "tools: ~": NONE,
    "tools: null": NONE,
    "tools: {Read: 1}": NONE,
    "tools: {}": NONE,
    "tools: 5": NONE,
    "tools: true": NONE,
    "tools: [[Read]]": NONE,
    "tools: [{Read: 1}]": NONE,
    "tools: Nothing": NONE,
    "tools: [Nothing, NotThis]": NONE,
    "tools: ,": NONE,
    "tools: [' ']": NONE,
    "Tools: []": NONE,
    "TOOLS: Read": "name:read_file",
    "tools: read": "name:read_file",
    "tools: READ": "name:read_file",
    "tools: read_file": "name:read_file",
    "tools: [Read, Nothing]": "name:read_file",
    "tools: Read, Read": "name:read_file",
    "tools: |\n  Read": "name:read_file",
    "tools:\n  - Read": "name:read_file",
    "tools:\n- Read": "name:read_file",
    "tools: '*'": ALL,
    "tools: [Read]\nallowed-tools: [Grep]": "(name:read_file) & (name:grep)",
    "tools: Read\nallowedTools: []": NONE,
    "allowed_tools: []": NONE,
    "tools: []\ndisallowedTools: Bash": NONE,
    "disallowedTools: Bash": "~(name:execute)",
    "disallowedTools: bash": "~(name:execute)",
    "disallowedTools: execute": "~(name:execute)",
    "disallowed-tools: Bash": "~(name:execute)",
    "disallowed_tools: [Bash]": "~(name:execute)",
    "DisallowedTools: Bash(rm:*)": "~(name:execute)",
    "disallowedtools: Bash": "~(name:execute)",
    "tools: Read, Bash\ndisallowed-tools: Bash": "(name:read_file | name:execute) & ~(name:execute)",
    "disallowedTools: '*'": NONE,
    "disallowedTools: all": NONE,
    "disallowedTools: {Bash: 1}": NONE,
    "disallowedTools: [[Bash]]": NONE,
    "disallowedTools: Bash\ndisallowed-tools: Write": "(~(name:execute)) & ~(name:write_file)",
    "disallowedTools: []": ALL,
    'description2: user: "x"\ntools: [Read]': "name:read_file",
    'about: a: b: [\ntools: ["Read"]': "name:read_file",
    "about: 'x\ntools: []": NONE,
}


@pytest.mark.parametrize("lines", AGENTS)
def test_an_agent_of_a_folder_has_no_more_tools_than_it_names(lines: str, tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    text = "\n".join(filter(None, ["---", "name: x", "description: y", lines, "---", "Body."]))
    (tmp_path / "agents" / "x.md").write_text(text, encoding="utf-8")
    folder = read_claude_plugin(tmp_path.resolve(), tmp_path / "data", "x")
    tools = [agent.tools for agent in folder.agents]
    assert tools in ([AGENTS[lines]], [])
    if any(word in lines for word in ("Nothing", "{Read", "{Bash", "[[", "5", "true")):
        assert folder.notes, "a name that no tool has, and a value that is no list, are said"


@pytest.mark.parametrize("lines", [line for line, tools in AGENTS.items() if tools == NONE])
def test_no_tools_are_none_in_the_type_of_subagents_too(lines: str, tmp_path: Path) -> None:
    from deep_folders.contributions import types_of

    (tmp_path / "agents").mkdir()
    (tmp_path / "agents" / "x.md").write_text(f"---\nname: x\ndescription: y\n{lines}\n---\nBody.", encoding="utf-8")
    for kind in types_of([read_claude_plugin(tmp_path.resolve(), tmp_path / "data", "x")]):
        assert kind.tools is not None
        assert not ToolExpression.parse(str(kind.tools)).matches(ToolFacts("read_file", "read_file", "filesystem"))
