"""Clashes of every kind: the error names both with versions and the ways out, and each way out works."""

from __future__ import annotations

import re
import warnings
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext, ToolDefinition
from pydantic_ai.capabilities import Capability
from pydantic_ai.exceptions import UserError

from deep_core import ConfigError, Kernel, PluginError, PluginWarning, PromptSection
from tests.environments import Distribution
from tests.plugins_by_hand import (
    Site,
    Tools,
    agent_of,
    kernel_of,
    outcomes,
    pending,
    plugin,
    returns,
    run,
    scripted,
    site,
)
from tests.stubs import Call

__all__ = ["site"]

TOOL = """
from deep_core import hookimpl

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset
    toolset = FunctionToolset(id={owner!r})
    toolset.add_function(lambda: {owner!r}, name={name!r}, description="Says whose it is.", requires_approval={asks})
    return [toolset]
"""
SECTION = """
from deep_core import PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.{kind}("rules", {text})]
"""
BACKEND = """
from deep_core import hookimpl

@hookimpl
def deep_backends(context):
    return {{"sandbox": lambda context: None}}
"""
SLOT = """
from deep_core import StateSlot, hookimpl

@hookimpl
def deep_state():
    return [StateSlot("notes", list[str], list)]
"""


def tool_of(owner: str, name: str = "search", *, asks: bool = False) -> str:
    return TOOL.format(owner=owner, name=name, asks=asks)


def offered(kernel: Kernel, **how: Any) -> list[str]:
    model = scripted()
    run(kernel.create_agent(model, **how))
    return sorted(model.player.views[0].tools)


def ways_out(error: BaseException) -> list[str]:
    """The lines that the message says to type."""
    return re.findall(r"^  (\[plugins\..*)$", str(error), re.M)


def as_config(way: str) -> dict[str, Any]:
    """`[plugins.x] key = value`, as the user would write it into a file."""
    import tomllib

    return tomllib.loads(way.replace("] ", "]\n", 1))


KINDS = {
    "tool": (tool_of("ant"), tool_of("bee")),
    "prompt section": (
        SECTION.format(kind="static", text="'ANT'"),
        SECTION.format(kind="live", text="lambda ctx: 'BEE'"),
    ),
    "backend": (BACKEND.format(), BACKEND.format()),
    "state slot": (SLOT, SLOT),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_error_names_both_with_versions_and_each_way_out_that_it_names_works(site: Site, kind: str) -> None:
    site.install("ant", KINDS[kind][0], version="1.2")
    site.install("bee", KINDS[kind][1], version="3.4")
    with pytest.raises(PluginError) as caught:
        Kernel().create_agent(scripted())
    message = str(caught.value)
    assert f"two plugins have a {kind} " in message
    assert "\n  ant 1.2 (acme-ant)\n  bee 3.4 (acme-bee)\n" in message
    ways = ways_out(caught.value)
    assert len(ways) == (4 if kind == "tool" else 1)
    for way in ways:
        with Kernel(config=as_config(way)) as kernel:
            run(kernel.create_agent(scripted()))


def test_two_tools_of_the_application_are_its_own_to_rename() -> None:
    def search() -> str:
        """Search."""
        return "found"

    one, other = FunctionToolset([search], id="one"), FunctionToolset([search], id="other")
    with pytest.raises(PluginError, match="the application gives two tools of the name 'search': rename one"):
        Kernel(discover=False).create_agent(scripted(), toolsets=[one, other])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left_out", ["ant", "bee"])
def test_leaving_out_either_ends_the_clash(site: Site, kind: str, left_out: str) -> None:
    site.install("ant", KINDS[kind][0])
    site.install("bee", KINDS[kind][1])
    with Kernel(disable=[left_out]) as kernel:
        run(kernel.create_agent(scripted()))
    if kind != "state slot":  # slots clash when the kernel is made: no agent has left anything out yet
        with Kernel() as kernel:
            run(kernel.create_agent(scripted(), **{left_out: False}))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"bee": {"prefix": "bee"}}, ["bee_search", "search"]),
        ({"ant": {"prefix": "ant"}}, ["ant_search", "search"]),
        ({"bee": {"tools": "~name:search"}}, ["search"]),
        ({"bee": {"replaces": ["ant:search"]}}, ["search"]),
        ({"bee": {"enabled": False}}, ["search"]),
    ],
)
def test_each_way_out_of_a_clash_of_tools(site: Site, config: dict[str, Any], expected: list[str]) -> None:
    site.install("ant", tool_of("ant"))
    site.install("bee", tool_of("bee"))
    assert offered(Kernel(config={"plugins": config})) == expected
    winner = "bee" if "replaces" in config.get("bee", {}) or "ant" in config else "ant"
    result = run(Kernel(config={"plugins": config}).create_agent(scripted(Call("search", {}))))
    (part,) = [part for message in result.all_messages() for part in message.parts if part.part_kind == "tool-return"]
    assert part.content == winner


def test_a_clash_is_an_error_at_construction_where_names_are_known() -> None:
    with pytest.raises(PluginError, match="'search'"):
        agent_of(plugin("a", toolsets=[Tools("search").toolset]), plugin("b", toolsets=[Tools("search").toolset]))


def test_where_names_are_not_known_it_is_an_error_when_first_listed() -> None:
    lazily = Tools("search").toolset.filtered(lambda ctx, definition: True)
    agent = agent_of(plugin("a", toolsets=[Tools("search").toolset]), plugin("b", toolsets=[lazily]))
    with pytest.raises(PluginError, match="'search'") as caught:
        run(agent)
    assert "  a (" in str(caught.value)
    assert "  b (" in str(caught.value)
    assert 'prefix = "b"' in str(caught.value)


def test_two_tools_of_one_plugin_are_its_author_s_to_rename() -> None:
    with pytest.raises(
        PluginError, match=r"^plugin a \(given by hand\) has two tools of the name 'search': its author"
    ):
        agent_of(plugin("a", toolsets=[Tools("search", id="x").toolset, Tools("search", id="y").toolset]))


def test_a_plugins_tool_and_the_applications_clash() -> None:
    def search() -> str:
        return "app"

    with pytest.raises(PluginError) as caught:
        agent_of(plugin("a", toolsets=[Tools("search").toolset]), tools=[search])
    assert "  a (" in str(caught.value)
    assert "the application" in str(caught.value)
    assert ways_out(caught.value)[0].startswith("[plugins.a]")


@pytest.mark.parametrize("other", ["toolset", "application's capability", "plugin's capability"])
def test_a_tool_of_a_capability_clashes_with_both_named(other: str) -> None:
    mine = plugin("a", toolsets=[Tools("search").toolset])
    theirs = Capability[Any](id="theirs", toolsets=[Tools("search").toolset])
    if other == "plugin's capability":
        agent = lambda: agent_of(mine, plugin("b", capabilities=[theirs]))  # noqa: E731
    elif other == "application's capability":
        agent = lambda: agent_of(mine, capabilities=[theirs])  # noqa: E731
    else:
        agent = lambda: agent_of(mine, toolsets=[Tools("search").toolset])  # noqa: E731
    with pytest.raises((PluginError, UserError), match="'search'") as caught:
        run(agent())
    if other != "application's capability":
        assert "  a (" in str(caught.value)
    if other == "plugin's capability":
        assert "  b (" in str(caught.value)


@pytest.mark.parametrize("name", ["search_tools", "load_capability", "final_result"])
@pytest.mark.parametrize("lazily", [False, True])
def test_a_reserved_name_names_the_plugin_and_each_way_out_works(name: str, lazily: bool) -> None:
    toolset = Tools(name, "other").toolset
    toolset = toolset.filtered(lambda ctx, definition: True) if lazily else toolset
    greedy = plugin("greedy", toolsets=[toolset])
    with pytest.raises(PluginError) as caught:
        run(agent_of(greedy))
    assert all(text in str(caught.value) for text in (repr(name), "reserved by Pydantic AI", "  greedy ("))
    ways = ways_out(caught.value)
    assert len(ways) == 3
    for way in ways:
        run(agent_of(greedy, config=as_config(way))) if "enabled" not in way else None
    run(agent_of(greedy, greedy=False))


def test_two_distributions_with_one_plugin_name_are_both_named_and_neither_is_guessed(site: Site) -> None:
    for number in (1, 2):
        Distribution(f"acme-sun{number}", {"sun": f"sun{number}"}, {f"sun{number}.py": tool_of("sun")}).write(site.path)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        kernel = Kernel()
    assert kernel.active == ()
    assert {record.status for record in kernel.records} == {"failed"}
    text = "".join(str(w.message) for w in caught if issubclass(w.category, PluginWarning))
    assert "acme-sun1" in text
    assert "acme-sun2" in text
    assert offered(Kernel(disable=["acme-sun1"])) == ["search"]


@pytest.mark.parametrize(
    "name", ["model", "tools", "interrupt_on", "kernel", "retries", "end_strategy", "Sun", "9", "a-b"]
)
def test_a_reserved_plugin_name_is_refused_saying_why(site: Site, name: str) -> None:
    Distribution("acme-greedy", {name: "greedy"}, {"greedy.py": tool_of("greedy")}).write(site.path)
    with pytest.warns(PluginWarning, match=rf"{name}(?s:.*)(parameter of create_deep_agent|does not match)"):
        kernel = Kernel()
    (record,) = kernel.records
    assert record.status == "failed"


def test_a_reserved_name_of_one_given_by_hand_says_what_its_user_can_rename() -> None:
    with pytest.raises(PluginError, match="parameter of create_deep_agent; rename its file, module or class"):
        agent_of(plugin("model"))


# -- replaces, prefix, tools, defer ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "how"),
    [
        ({"requires_approval": True}, {}),
        ({}, {"interrupt_on": {"search": True}}),
        ({"tags": ["execute"]}, {"interrupt_on": "execute"}),
        ({}, {"interrupt_on": "plugin:a"}),
    ],
)
def test_a_tool_that_takes_anothers_place_keeps_its_approvals(old: dict[str, Any], how: dict[str, Any]) -> None:
    first, second = Tools("search", **old), Tools("search", tags=["read"])
    for lazily in (False, True):
        toolset = first.toolset.filtered(lambda ctx, definition: True) if lazily else first.toolset
        agent = agent_of(
            plugin("a", toolsets=[toolset]),
            plugin("b", toolsets=[second.toolset]),
            model=scripted(Call("search", {})),
            config={"plugins": {"b": {"replaces": ["a:search"]}}},
            **how,
        )
        assert pending(run(agent)).approvals
    assert (first.ran, second.ran) == ([], [])


def test_a_predicate_on_the_name_that_the_replaced_tool_had_holds() -> None:
    first, second = Tools("search", tags=["read"]), Tools("search", tags=["read"])
    agent = agent_of(
        plugin("a", toolsets=[first.toolset]),
        plugin("b", toolsets=[second.toolset]),
        model=scripted(Call("search", {})),
        config={"plugins": {"a": {"prefix": "a"}, "b": {"replaces": ["a:search"]}}},
        interrupt_on={"a_search": lambda call: True},
    )
    assert pending(run(agent)).approvals
    assert second.ran == []


def test_replacing_with_a_prefix_still_keeps_the_approvals() -> None:
    first, second = Tools("search", requires_approval=True), Tools("search", tags=["read"])
    agent = agent_of(
        plugin("a", toolsets=[first.toolset]),
        plugin("b", toolsets=[second.toolset]),
        model=scripted(Call("b_search", {})),
        config={"plugins": {"b": {"replaces": ["a:search"], "prefix": "b"}}},
    )
    assert pending(run(agent)).approvals


@pytest.mark.parametrize("entry", ["search", "zzz:search", "a:", "a:serch", ":search", "a:search:x"])
def test_a_wrong_replaces_is_an_error_with_its_path(entry: str) -> None:
    plugins = [plugin("a", toolsets=[Tools("search").toolset]), plugin("b", toolsets=[Tools("find", "serch").toolset])]
    with pytest.raises(ConfigError, match=r"plugins\.b\.replaces"):
        agent_of(*plugins, config={"plugins": {"b": {"replaces": [entry]}}})


def test_a_tool_is_not_replaced_by_nothing() -> None:
    plugins = [plugin("a", toolsets=[Tools("search").toolset]), plugin("b", toolsets=[Tools("find").toolset])]
    with pytest.raises(ConfigError, match=r"plugins\.b\.replaces(?s:.*)search"):
        agent_of(*plugins, config={"plugins": {"b": {"replaces": ["a:search"]}}})


def test_an_expression_matches_the_original_and_the_final_name() -> None:
    for rule in ("name:search", "name:web_search", "^web_", "^sea"):
        tools = Tools("search", "fetch")
        config = {"plugins": {"web": {"prefix": "web", "tools": rule}}}
        model = scripted()
        run(agent_of(plugin("web", toolsets=[tools.toolset]), model=model, config=config))
        assert "web_search" in model.player.views[0].tools


def test_a_prefixed_tool_runs_under_its_own_name() -> None:
    seen: list[str | None] = []
    toolset = FunctionToolset[Any](id="web")

    @toolset.tool
    def search(ctx: RunContext[Any]) -> str:
        seen.append(ctx.tool_name)
        return "found"

    config = {"plugins": {"web": {"prefix": "web"}}}
    result = run(agent_of(plugin("web", toolsets=[toolset]), model=scripted(Call("web_search", {})), config=config))
    assert (outcomes(result), seen) == ([("web_search", "success")], ["search"])


@pytest.mark.parametrize(
    "replacing",
    [{"a": "a:search"}, {"a": "b:search", "b": "a:search"}, {"b": "a:search", "c": "b:search"}],
    ids=["itself", "each other", "in a chain"],
)
def test_what_replaces_a_tool_is_not_replaced_itself(replacing: dict[str, str]) -> None:
    plugins = [plugin("a", toolsets=[Tools("search", requires_approval=True).toolset])]
    plugins += [plugin(name, toolsets=[Tools("search").toolset]) for name in replacing if name != "a"]
    config = {"plugins": {name: {"replaces": [entry]} for name, entry in replacing.items()}}
    with pytest.raises(ConfigError, match=r"plugins\.\w\.replaces: .* which is replaced itself"):
        agent_of(*plugins, config=config)


@pytest.mark.parametrize(
    ("settings", "tools", "way"),
    [
        ({}, None, 'replaces = ["a:search"]'),
        ({"a": {"prefix": "x"}, "b": {"prefix": "x"}}, None, 'replaces = ["a:search"]'),
        ({"a": {"prefix": "x"}}, ["x_search"], None),
    ],
    ids=["of one name", "of one name before the prefix", "of one name after it"],
)
def test_the_way_out_to_replace_is_reported_where_it_is_one(
    settings: dict[str, Any], tools: list[str] | None, way: str | None
) -> None:
    plugins = [
        plugin("a", toolsets=[Tools("search").toolset]),
        plugin("b", toolsets=[Tools(*tools or ["search"]).toolset]),
    ]
    with pytest.raises(PluginError) as caught:
        agent_of(*plugins, config={"plugins": settings})
    assert ("replaces" in str(caught.value)) == (way is not None)
    assert way is None or way in str(caught.value)


def test_the_applications_tool_cannot_be_replaced_without_a_suggestion_to_do_so() -> None:
    def search() -> str:
        return ""

    with pytest.raises(PluginError, match="two plugins have a tool 'search'") as caught:
        agent_of(plugin("b", toolsets=[Tools("search").toolset]), tools=[search])
    assert "replaces" not in str(caught.value)


@pytest.mark.parametrize("defer", [True, "name:search"])
def test_a_deferred_tool_is_found_through_tool_search(defer: Any) -> None:
    from pydantic_ai.models.test import TestModel

    tools = Tools("search", "fetch")
    agent = agent_of(plugin("web", toolsets=[tools.toolset]), config={"plugins": {"web": {"defer": defer}}})
    model = TestModel(call_tools=["search_tools"])
    run(agent, model=model)
    parameters = model.last_model_request_parameters
    assert parameters is not None
    deferred = {tool.name for tool in parameters.function_tools if tool.defer_loading}
    assert deferred == ({"search", "fetch"} if defer is True else {"search"})
    assert "search_tools" in {tool.name for tool in parameters.function_tools}


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ({}, ["past", "wipe_past"]),
        ({"tool_filter": "read"}, ["past"]),
        ({"tool_filter": "plugin:web & ~write"}, ["past"]),
        ({"config": {"agent": {"tools_policy": {"allow_list": ["wipe_past"]}}}}, ["wipe_past"]),
        ({"config": {"agent": {"tools_policy": {"require_approval_by_default": True}}}}, ["past", "wipe_past"]),
        ({"interrupt_on": "read | write"}, ["past", "wipe_past"]),
    ],
)
def test_the_search_finds_what_the_filter_leaves_and_asks_no_person(rules: dict[str, Any], found: list[str]) -> None:
    result = run(searching(scripted(Call("search_tools", {"queries": ["past"]})), **rules))
    (answer,) = returns(result.all_messages())
    assert [tool["name"] for tool in answer.content["discovered_tools"]] == found


def test_where_no_tool_is_shown_there_is_no_search_either() -> None:
    model = scripted()
    run(searching(model, config={"agent": {"tools_policy": {"enabled": False}}}))
    assert not model.player.views[0].tools


def test_a_found_tool_asks_as_ever() -> None:
    model = scripted(Call("search_tools", {"queries": ["past"]}), Call("wipe_past", {}))
    asked = pending(run(searching(model, tool_filter="write", interrupt_on={"wipe_past": True})))
    assert [call.tool_name for call in asked.approvals] == ["wipe_past"]


def searching(model: Any, **rules: Any) -> Agent[Any, Any]:
    """An agent with two tools on demand, one that reads and one that writes."""
    tools = Tools("past", tags=["read"]).add("wipe_past", tags=["write"])
    kernel = kernel_of(plugin("web", toolsets=[tools.toolset]), config={"plugins": {"web": {"defer": True}}})
    return kernel.create_agent(model, **rules)


@pytest.mark.parametrize(
    ("metadata", "tags"),
    [
        (None, {"write"}),
        ({"tags": ["read", "network"]}, {"read", "network"}),
        ({"tags": []}, {"write"}),
        ({"annotations": {"readOnlyHint": True}}, {"read"}),
        ({"annotations": {"readOnlyHint": True, "openWorldHint": True}}, {"read", "network"}),
        ({"annotations": {"readOnlyHint": False, "destructiveHint": True}}, {"write", "destructive"}),
        ({"annotations": {"destructiveHint": True}}, {"write", "destructive"}),
        ({"annotations": {"title": "A tool"}}, {"write"}),
        ({"annotations": {}}, {"write"}),
        ({"annotations": {"openWorldHint": True}}, {"write", "network"}),
    ],
)
def test_a_tools_tags_are_its_own_or_its_annotations_or_write(metadata: Any, tags: set[str]) -> None:
    seen: list[ToolDefinition] = []
    toolset = FunctionToolset[Any](id="web")
    toolset.add_function(lambda: "x", name="search", description="Search.", metadata=metadata)
    check = plugin("check", check_call=lambda call: seen.append(call))
    run(agent_of(plugin("web", toolsets=[toolset]), check, model=scripted(Call("search", {}))))
    assert set(seen[0].tags) == tags  # type: ignore[attr-defined]


def test_a_section_name_belongs_to_one_plugin_but_a_plugin_left_out_claims_nothing() -> None:
    rules = [PromptSection.static("rules", "R")]
    agent = agent_of(plugin("a", sections=rules), plugin("b", sections=rules), b=False)
    assert run(agent).output == "done"
