"""The algebra of tools as a universe uses it: selection, simplification and explanation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from deep_universe import Universe, diagnose, simplify
from deep_universe.expressions import matching
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.toolsets import FunctionToolset

from deep_core import (
    FromPlugin,
    Prefix,
    Tag,
    TagNotSet,
    TagSet,
    ToolExpression,
    ToolFacts,
    ToolName,
)
from deep_core.plugin_api import And, ExpressionParseError, Not, Or
from tests.drawn import examples

pytestmark = pytest.mark.anyio


def tool(name: str, *tags: str, plugin: str = "app") -> ToolFacts:
    return ToolFacts(name, name, plugin, tags)


WORDS = ("a", "b", "api_v1", "two words", 'quo"te', "ns:x", "v1.2")
ATOMS = st.one_of(
    st.sampled_from(WORDS).map(Tag),
    st.sampled_from(WORDS).map(ToolName),
    st.sampled_from(WORDS).map(Prefix),
    st.sampled_from(WORDS).map(FromPlugin),
)
EXPRESSIONS: st.SearchStrategy[ToolExpression] = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        inner.map(Not),
        st.lists(inner, min_size=2, max_size=4).map(lambda operands: And(*operands)),
        st.lists(inner, min_size=2, max_size=4).map(lambda operands: Or(*operands)),
    ),
    max_leaves=12,
)
TOOLS = [
    tool(name, *tags, plugin=plugin)
    for name, tags, plugin in itertools.product(WORDS, [(), ("a",), ("b", "v1.2"), WORDS], ("app", "b"))
]


def selected(expression: ToolExpression) -> list[ToolFacts]:
    return [each for each in TOOLS if expression.matches(each)]


def test_E2_a_name_matches_itself_only() -> None:
    assert ToolName("a").matches(tool("a"))
    assert not ToolName("a").matches(tool("ab"))
    assert isinstance(ToolName("a"), ToolExpression)


def test_E3_a_tag_is_a_member_and_has_a_case() -> None:
    assert Tag("finance").matches(tool("t", "x", "finance"))
    assert not Tag("Finance").matches(tool("t", "finance"))
    assert not Tag("fin").matches(tool("t", "finance"))


def test_E4_a_prefix_is_the_beginning_of_a_name() -> None:
    assert [name for name in ("api_v1", "my_api_", "api") if Prefix("api_").matches(tool(name))] == ["api_v1"]


@pytest.mark.parametrize("tags", [(), ("x",), ("y",), ("x", "y")])
@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_E5_the_operators_have_their_truth_table(name: str, tags: tuple[str, ...]) -> None:
    each, x, y = tool(name, *tags), Tag("x"), Tag("y")
    assert (x & y).matches(each) == ("x" in tags and "y" in tags)
    assert (x | y).matches(each) == ("x" in tags or "y" in tags)
    assert (~x).matches(each) == ("x" not in tags)
    assert (x & ~y | ToolName("two")).matches(each) == (("x" in tags and "y" not in tags) or name == "two")


def test_E6_expressions_are_values() -> None:
    assert Tag("a") & Tag("b") == Tag("a") & Tag("b")
    assert Tag("a") != ToolName("a")
    assert {Tag("a") & Tag("b"): 1}[Tag("a") & Tag("b")] == 1
    with pytest.raises(AttributeError, match="immutable"):
        Tag("a").name = "b"


@settings(max_examples=examples(1000))
@given(EXPRESSIONS)
def test_E7_the_text_form_parses_to_an_equal_expression(expression: ToolExpression) -> None:
    parsed = ToolExpression.parse(expression.to_dsl())
    assert parsed == expression
    assert selected(parsed) == selected(expression)


def test_E7_not_binds_tightest_and_nesting_is_limited() -> None:
    assert ToolExpression.parse("~a & b | c") == (~Tag("a") & Tag("b")) | Tag("c")
    ToolExpression.parse("(" * 50 + "a" + ")" * 50)
    with pytest.raises(ExpressionParseError, match="nested more than 50 deep"):
        ToolExpression.parse("(" * 51 + "a" + ")" * 51)


@given(EXPRESSIONS)
def test_E8_simplify_keeps_the_meaning_and_adds_nothing(expression: ToolExpression) -> None:
    simple = simplify(expression)
    assert selected(simple) == selected(expression)
    assert simplify(simple) == simple
    assert len(str(simple)) <= len(str(expression))


@pytest.mark.parametrize(
    ("text", "simple"),
    [
        ("~~a", "a"),
        ("~~~a", "~a"),
        ("a & a", "a"),
        ("a | b | a", "a | b"),
        ("a & ~~(b & c)", "a & b & c"),
        ("~~(a | b) | c", "a | b | c"),
        ("(a | a) & (a | a)", "a"),
        ("~(~a & ~a)", "a"),
        ("a & (b | b) & c", "a & b & c"),
        ("(a | ~~b) & c", "(a | b) & c"),
        ("a | b", "a | b"),
    ],
)
def test_E8_simplify_dedupes_flattens_and_drops_double_negation(text: str, simple: str) -> None:
    assert simplify(ToolExpression.parse(text)) == ToolExpression.parse(simple)


def test_E9_the_trace_names_the_part_that_failed() -> None:
    trace = diagnose(Tag("finance") & ~Tag("internal"), tool("rotate", "finance", "internal"))
    assert not trace.matched
    assert trace.node == "And"
    assert trace.detail == "1 of 2 select it, all must"
    (failed,) = [child for child in trace.children if not child.matched]
    assert (failed.node, failed.expression, failed.detail) == ("Not", ~Tag("internal"), "the part below selects it")
    assert [(leaf.node, leaf.matched) for leaf in failed.children] == [("Tag", True)]


def test_E9_the_trace_is_a_readable_tree() -> None:
    expression = ToolExpression.parse("finance & ~internal | name:x | ^api_ | plugin:bank")
    assert str(diagnose(expression, tool("rotate", "finance", "internal"))) == (
        "no  finance & ~internal | name:x | prefix:api_ | plugin:bank: 0 of 4 select it, one must\n"
        "  no  finance & ~internal: 1 of 2 select it, all must\n"
        "    yes finance: its tags are finance, internal\n"
        "    no  ~internal: the part below selects it\n"
        "      yes internal: its tags are finance, internal\n"
        "  no  name:x: its name is rotate\n"
        "  no  prefix:api_: its name is rotate\n"
        "  no  plugin:bank: its plugin is app"
    )


@given(EXPRESSIONS, st.sampled_from(TOOLS))
def test_E9_every_part_is_judged_as_the_expression_judges(expression: ToolExpression, facts: ToolFacts) -> None:
    pending = [diagnose(expression, facts)]
    assert pending[0].matched == expression.matches(facts)
    while pending:
        trace = pending.pop()
        assert trace.matched == trace.expression.matches(facts)
        pending.extend(trace.children)


def test_E9_a_definition_can_be_explained_too() -> None:
    universe = Universe()
    definition = universe.register(lambda: 1, name="one", tags={"read"}).definition
    assert diagnose(Tag("read"), definition).matched


async def test_E10_an_expression_is_a_selector_of_pydantic_ai() -> None:
    toolset: FunctionToolset[Any] = FunctionToolset()
    for name, tags in {"get_balance": ["finance", "x"], "rotate": ["finance", "internal"], "slow": ["finance"]}.items():
        toolset.add_function(lambda: "", takes_ctx=False, name=name, metadata={"tags": tags})
    seen: list[str] = []

    def answer(messages: Any, info: AgentInfo) -> ModelResponse:
        seen.extend(each.name for each in info.function_tools)
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(answer), toolsets=[toolset.filtered(Tag("finance") & ~Tag("internal"))])
    await agent.run("go")
    assert seen == ["get_balance", "slow"]


class _Config(BaseModel):
    tools: ToolExpression


def test_E11_an_expression_serializes_as_its_text() -> None:
    config = _Config.model_validate({"tools": "finance & ~internal"})
    assert config.tools == Tag("finance") & ~Tag("internal")
    assert config.model_dump() == {"tools": "finance & ~internal"}
    assert _Config.model_validate_json(config.model_dump_json()) == config


def test_E12_sets_of_tags_are_any_and_none() -> None:
    assert simplify(TagSet("a", "b")) == Tag("a") | Tag("b")
    assert simplify(TagNotSet("a", "b")) == ~(Tag("a") | Tag("b"))
    for kind in (TagSet, TagNotSet):
        with pytest.raises(ValueError, match="at least one tag"):
            kind()


@given(EXPRESSIONS)
def test_selecting_many_equals_matching_each(expression: ToolExpression) -> None:
    assert matching(expression, TOOLS) == {at for at, each in enumerate(TOOLS) if expression.matches(each)}
