"""The registry: registration, selection by text and by expression, snapshots."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any
from xml.etree import ElementTree

import pytest
from deep_universe import (
    DriverContractError,
    DriverNotFoundError,
    DuplicateToolError,
    FunctionTool,
    Next,
    ToolCall,
    ToolNameError,
    ToolNotFoundError,
    ToolSet,
    Universe,
    UniverseTool,
)
from deep_universe.tools import PreparedCall
from pydantic_ai.tools import ToolDefinition

from deep_core import Tag, ToolExpression, ToolName
from deep_core.plugin_api import ExpressionParseError

from .dispatching import PlainDriver, codes, plain
from .spies import Spy

pytestmark = pytest.mark.anyio


def get_balance(account: str) -> str:
    """Read a balance."""
    return account


def rotate(key: str) -> str:
    """Rotate a key."""
    return key


def slow() -> str:
    """Take time."""
    return "done"


@pytest.fixture
def u() -> Universe:
    universe = Universe()
    universe.register(get_balance, tags={"finance"})
    universe.register(rotate, tags={"finance", "internal"})
    universe.register(slow, tags={"v1.2"})
    return universe


def names(tools: ToolSet) -> list[str]:
    return [tool.name for tool in tools]


# -- selection ---------------------------------------------------------------------------------------------------------


def test_U1_a_text_filters_by_tag_and_gives_a_set(u: Universe) -> None:
    assert isinstance(u["finance"], ToolSet)
    assert names(u["finance"]) == ["get_balance", "rotate"]


def test_U2_a_text_is_never_a_tools_name(u: Universe) -> None:
    assert len(u["get_balance"]) == 0


def test_U3_a_tool_is_found_by_its_name(u: Universe) -> None:
    found = u.get("get_balance")
    assert found is not None
    assert found.name == "get_balance"
    assert u.get("nope") is None


def test_U4_an_expression_gives_a_set_too(u: Universe) -> None:
    assert isinstance(u[Tag("finance")], ToolSet)
    assert names(u[Tag("finance") & ~Tag("internal")]) == ["get_balance"]


def test_U5_no_match_is_an_empty_set_that_renders(u: Universe) -> None:
    assert not u["nope"]
    assert u["nope"].render("openai") == []
    assert list(ElementTree.fromstring(u["nope"].render("xml"))) == []
    for driver in u.drivers:
        u["nope"].render(driver.name)


@pytest.mark.parametrize("key", [42, None, ["get_balance"], {"finance"}, ("a",), b"finance", slice(1)])
def test_U6_any_other_key_is_a_type_error(u: Universe, key: Any) -> None:
    with pytest.raises(TypeError, match="an expression or its text"):
        u[key]


def test_U6_a_universe_is_not_iterated_by_index(u: Universe) -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(u)  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="not iterable"):
        assert "finance" in u  # type: ignore[operator]


def test_U9_the_order_is_that_of_registration_or_by_name() -> None:
    universe = Universe()
    for name in ("zeta", "alpha", "midway"):
        universe.register(slow, name=name, tags={"b", "a", name})
    assert names(universe["a"]) == ["zeta", "alpha", "midway"]
    assert names(universe.select("a", sorted=True)) == ["alpha", "midway", "zeta"]
    first, second = (json.dumps(universe["a"].render("openai")) for _ in range(2))
    assert first == second


def test_U10_a_set_is_reusable_and_a_snapshot(u: Universe) -> None:
    chosen = u["finance"]
    assert names(chosen) == names(chosen) == [tool.name for tool in chosen.tools]
    assert bool(chosen)
    assert len(chosen) == 2
    assert chosen.expression == Tag("finance")
    assert chosen.tools[0] in chosen
    before = chosen.render("openai")
    u.register(slow, name="later", tags={"finance"})
    u.unregister("rotate")
    u.add_driver(Spy("spy", 100))
    assert len(chosen) == 2
    assert chosen.render("openai") == chosen.render("gpt-5.2") == before
    assert names(u["finance"]) == ["get_balance", "later"]


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("finance & ~internal", ["get_balance"]),
        ("prefix:get_", ["get_balance"]),
        ("^ro | v1.2", ["rotate", "slow"]),
        ("name:slow", ["slow"]),
        ("`slow`", ["slow"]),
        ("~(finance | name:slow)", []),
        ("plugin:app", ["get_balance", "rotate", "slow"]),
    ],
)
def test_U11_a_text_is_an_expression(u: Universe, text: str, selected: list[str]) -> None:
    assert names(u[text]) == selected
    assert names(u[ToolExpression.parse(text)]) == selected


def test_U11_a_bad_text_says_where(u: Universe) -> None:
    with pytest.raises(ExpressionParseError) as error:
        u["finance &\n & internal"]
    assert (error.value.line, error.value.column, error.value.context) == (2, 2, " & internal")


@pytest.mark.parametrize(
    ("tag", "text"),
    [("v1.2", "v1.2"), ("a/b", "a/b"), ("a-b_c", "a-b_c"), ("ns:x", '"ns:x"'), ("two words", '"two words"')],
)
def test_U12_a_plain_tag_is_a_tag_whatever_it_contains(tag: str, text: str) -> None:
    universe = Universe()
    universe.register(slow, tags={tag})
    assert names(universe[text]) == names(universe[Tag(tag)]) == ["slow"]


# -- registration ------------------------------------------------------------------------------------------------------


def test_U7_a_second_tool_of_a_name_is_refused_and_the_first_stays(u: Universe) -> None:
    with pytest.raises(DuplicateToolError, match="'get_balance'"):
        u.register(slow, name="get_balance")
    found = u.get("get_balance")
    assert isinstance(found, FunctionTool)
    assert found.function is get_balance


def test_U8_a_bad_name_is_refused_at_registration(u: Universe) -> None:
    for name in ("a b", "x" * 65):
        with pytest.raises(ToolNameError):
            u.register(slow, name=name)
    assert len(u.tools) == 3


def test_U13_universes_are_ordinary_objects(u: Universe) -> None:
    other = Universe()
    assert other is not u
    assert not other.tools
    other.add_driver(Spy("spy"))
    with pytest.raises(DriverNotFoundError):
        u.driver("spy")


def test_U14_an_unknown_name_cannot_be_unregistered(u: Universe) -> None:
    with pytest.raises(ToolNotFoundError, match=r"'rotat'\. Did you mean 'rotate'\?"):
        u.unregister("rotat")
    u.unregister("rotate")
    assert names(u["finance"]) == ["get_balance"]
    u.register(rotate)


def test_the_decorator_registers_and_returns_the_function() -> None:
    universe = Universe()

    @universe.tool
    def plain() -> None: ...

    @universe.tool(tags={"read"}, name="renamed", middlewares=[len])  # type: ignore[list-item]
    def tagged() -> None: ...

    assert plain() is None
    assert [tool.name for tool in universe.tools] == ["plain", "renamed"]
    renamed = universe.get("renamed")
    assert renamed is not None
    assert (renamed.facts.tags, renamed.middlewares) == (("read",), [len])


def test_an_untagged_tool_counts_as_one_that_writes() -> None:
    universe = Universe()
    universe.register(slow)
    assert names(universe["write"]) == ["slow"]
    assert not universe["read"]


@pytest.mark.slow
def test_every_selection_equals_the_expressions_own_judgment() -> None:
    universe = Universe()
    for number in range(200):
        universe.register(slow, name=f"tool_{number}", tags={f"a{number % 3}", f"b{number % 7}"})
    for text in ("a1", "a1 & ~b2", "~(a0 | b3) | name:tool_9", "^tool_1 & a2 & ~plugin:other", 'name:""'):
        expression = ToolExpression.parse(text)
        assert names(universe[text]) == [tool.name for tool in universe.tools if expression.matches(tool.facts)]


class Bare(UniverseTool):
    """A tool that costs nothing to make."""

    async def prepare(self, arguments: Mapping[str, Any], context: Mapping[str, Any]) -> PreparedCall:
        raise NotImplementedError


def frames(count: int, text: str) -> tuple[int, int]:
    """How many frames a selection among so many tools runs, and how many tools it selects."""
    universe = Universe()
    for number in range(count):
        definition = ToolDefinition(name=f"tool_{number}", metadata={"tags": [f"a{number % 3}", f"b{number % 7}"]})
        universe.register_tool(Bare(definition))
    expression, ran = ToolExpression.parse(text), 0

    def profile(frame: object, event: str, argument: object) -> None:
        nonlocal ran
        ran += event == "call"

    gc.disable()  # hypothesis has a callback there
    sys.setprofile(profile)
    try:
        selected = universe[expression]
    finally:
        sys.setprofile(None)
        gc.enable()
    return ran, len(selected)


def test_a_selection_calls_no_function_for_each_tool() -> None:
    text = "a1 & ~b2 | plugin:other | ^tool_10 | name:tool_7"
    (few, of_few), (many, of_many) = frames(210, text), frames(2_100, text)
    assert of_many > 9 * of_few > 0
    assert many == few


# -- drivers -----------------------------------------------------------------------------------------------------------


def test_a_driver_is_found_by_name_and_names_are_unique(u: Universe) -> None:
    assert u.driver("openai").name == "openai"
    with pytest.raises(DriverNotFoundError, match=r"'opena'\. Did you mean 'openai'\? The drivers are: openai, "):
        u.driver("opena")
    with pytest.raises(DriverContractError, match="a driver 'openai' already"):
        u.add_driver(Spy("openai"))
    with pytest.raises(DriverContractError, match="an instance of a subclass of ToolDriver"):
        u.add_driver(Spy)  # type: ignore[arg-type]


def test_names_select_with_an_expression(u: Universe) -> None:
    assert names(u[ToolName("slow")]) == ["slow"]


# -- execution ---------------------------------------------------------------------------------------------------------


async def test_a_universe_executes_calls_in_its_middleware(u: Universe) -> None:
    seen: list[str] = []

    @partial(u.use, uid="trace", scope="internal")
    async def trace(call: ToolCall, next: Next) -> Any:
        seen.append(call.name)
        return await next(call)

    u.add_driver(PlainDriver())
    calls = plain(
        ToolCall("1", "get_balance", {"account": "a"}), ToolCall("2", "rotate", {"key": "k"}), ToolCall("3", "slow", {})
    )
    results = await u.dispatch(calls, tool_filter=Tag("finance"), max_parallel=1, timeout=60)
    assert codes(results) == ["ok", "ok", "FILTER_DENIED"]
    assert [result.result for result in results] == ["a", "k", None]
    assert seen == ["rotate"]
    assert [layer.uid for layer in u.layers] == ["trace"]


async def test_E1_only_an_expression_filters_calls(u: Universe) -> None:
    ran: list[str] = []
    u.register(lambda: ran.append("ran"), name="spy")
    u.add_driver(PlainDriver())
    for tool_filter in ({"spy"}, ["spy"], "spy", lambda ctx, tool: True):
        with pytest.raises(TypeError, match="tool_filter is a tool expression"):
            await u.dispatch(plain("spy"), tool_filter=tool_filter)  # type: ignore[arg-type]
    assert not ran
    assert codes(await u.dispatch(plain("spy"), tool_filter=ToolName("spy"))) == ["ok"]
