"""Tool expressions: the algebra, the text form, the boundary with Pydantic AI and pydantic, what a mistake is told."""

from __future__ import annotations

import asyncio
import copy
import itertools
import pickle
import subprocess
import sys
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from pydantic_ai.tools import ToolDefinition, matches_tool_selector
from pydantic_ai.toolsets import FunctionToolset
from tool_expressions import (
    MAX_NESTING,
    NOTHING,
    And,
    ExpressionParseError,
    FromPlugin,
    Not,
    Or,
    Prefix,
    Tag,
    TagNotSet,
    TagSet,
    ToolExpression,
    ToolFacts,
    ToolName,
    as_expression,
    checked_expression,
    tool_facts,
)

from tests.drawn import examples

parse = ToolExpression.parse


def tool(*names: str, tags: str | Iterable[str] = "", plugin: str = "app") -> ToolFacts:
    return ToolFacts(names[0], names[-1], plugin, tuple(tags.split() if isinstance(tags, str) else tags))


BALANCE = tool("get_balance", tags="finance")


ROTATE = tool("rotate", tags="finance internal")


SLOW = tool("slow")


TOOLS = (BALANCE, ROTATE, SLOW)


def chosen(expression: ToolExpression, subjects: tuple[ToolFacts, ...] = TOOLS) -> list[str]:
    return [subject.names[0] for subject in subjects if expression.matches(subject)]


# --- the algebra (E2-E6, E12) ---


def test_e2_a_tool_name_is_the_whole_name_final_or_original():
    assert ToolName("a").matches(tool("a"))
    assert not ToolName("a").matches(tool("ab"))
    assert ToolName("forecast").matches(tool("weather_forecast", "forecast"))
    assert ToolName("weather_forecast").matches(tool("weather_forecast", "forecast"))


def test_e3_a_tag_is_membership_and_case_sensitive():
    assert Tag("finance").matches(BALANCE)
    assert not Tag("Finance").matches(BALANCE)
    assert not Tag("fin").matches(BALANCE)
    assert not Tag("get_balance").matches(BALANCE)


def test_e4_a_prefix_is_the_start_of_a_name_final_or_original():
    assert Prefix("api_").matches(tool("api_v1"))
    assert not Prefix("api_").matches(tool("my_api_"))
    assert Prefix("fore").matches(tool("weather_forecast", "forecast"))


def test_from_plugin_is_the_plugins_name():
    assert FromPlugin("skills").matches(tool("load_skill", plugin="skills"))
    assert not FromPlugin("skills").matches(tool("skills"))


@pytest.mark.parametrize("names", list(itertools.product(["", "a", "b", "a b"], repeat=3)))
def test_e5_truth_table_over_three_tools_and_two_tags(names: tuple[str, ...]):
    for subject in (tool(f"t{i}", tags=tags) for i, tags in enumerate(names)):
        a, b = "a" in subject.tags, "b" in subject.tags
        assert (Tag("a") & Tag("b")).matches(subject) is (a and b)
        assert (Tag("a") | Tag("b")).matches(subject) is (a or b)
        assert (~Tag("a")).matches(subject) is (not a)
        assert (~(Tag("a") | ~Tag("b"))).matches(subject) is (not (a or not b))


def test_e6_expressions_are_values():
    assert Tag("a") & Tag("b") == Tag("a") & Tag("b")
    assert Tag("a") & Tag("b") != Tag("b") & Tag("a")
    assert Tag("a") != ToolName("a")
    assert {Tag("a") | ~Prefix("b"): 1}[Tag("a") | ~Prefix("b")] == 1
    assert And(Tag("a"), Tag("b")) != Or(Tag("a"), Tag("b"))


@pytest.mark.parametrize("expression", [Tag("a"), Prefix("a"), Tag("a") & Tag("b"), ~Tag("a")], ids=repr)
@pytest.mark.parametrize("attribute", ["name", "prefix", "operands", "operand", "_nesting", "new"])
def test_e6_expressions_are_frozen(expression: ToolExpression, attribute: str):
    with pytest.raises(AttributeError):
        setattr(expression, attribute, "x")


def test_joining_is_associative_by_structure():
    a, b, c = Tag("a"), Tag("b"), Tag("c")
    assert (a & b) & c == a & (b & c) == And(a, b, c)
    assert (a | b) | c == a | (b | c) == Or(a, b, c)
    assert (a & b) | c != a & (b | c)


def test_e12_tag_sets():
    assert TagSet("a", "b") == Tag("a") | Tag("b")
    assert TagNotSet("a", "b") == ~(Tag("a") | Tag("b"))
    assert TagSet("a", "a") == Tag("a")
    assert chosen(TagNotSet("internal", "x")) == ["get_balance", "slow"]
    for empty in (TagSet, TagNotSet):
        with pytest.raises(ValueError, match="at least one tag"):
            empty()


@pytest.mark.parametrize("kind", [Tag, Prefix, FromPlugin])
def test_an_empty_atom_is_refused(kind: Any):
    with pytest.raises(ValueError, match="non-empty"):
        kind("")


@pytest.mark.parametrize("kind", [Tag, ToolName, Prefix, FromPlugin])
def test_an_atom_takes_a_string(kind: Any):
    with pytest.raises(TypeError, match="takes a string, not list"):
        kind(["a"])


def test_operators_refuse_strings_and_say_what_to_write():
    with pytest.raises(TypeError, match=r"Tag\('b'\) or ToolName\('b'\)"):
        Tag("a") & "b"  # pyright: ignore[reportOperatorIssue]
    with pytest.raises(TypeError):
        Not("b")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="two or more"):
        And(Tag("a"))


def test_truth_value_is_an_error_so_that_and_and_or_are_not_silently_wrong():
    with pytest.raises(TypeError, match=r"use & \| ~"):
        Tag("a") and Tag("b")
    with pytest.raises(TypeError):
        not Tag("a")


def test_repr_is_the_python_that_makes_it():
    expression = (Tag("a") | ~Prefix("b")) & ~(ToolName("c") | FromPlugin("d")) & ~~Tag('"')
    assert repr(Tag("a") & ~Tag("b")) == "Tag('a') & ~Tag('b')"
    assert eval(repr(expression)) == expression


# --- the text form (E7, U2, U11, U12) ---


def test_u2_a_word_is_a_tag_and_never_a_name():
    assert parse("get_balance") == Tag("get_balance")
    assert chosen(parse("get_balance")) == []


def test_u11_the_grammar():
    assert parse("finance & ~internal") == Tag("finance") & ~Tag("internal")
    assert parse("prefix:api_") == parse("^api_") == parse('^"api_"') == Prefix("api_")
    assert parse("name:x") == parse("`x`") == parse('name:"x"') == parse("name:`x`") == ToolName("x")
    assert parse("plugin:skills") == FromPlugin("skills")
    assert parse("a | b & ~c") == Or(Tag("a"), And(Tag("b"), Not(Tag("c"))))
    assert parse("(a | b) & ~(c & d)") == And(Or(Tag("a"), Tag("b")), Not(And(Tag("c"), Tag("d"))))
    assert parse("\t~ ~a\r\n|b ") == Or(Not(Not(Tag("a"))), Tag("b"))
    assert parse('"a b:c"') == Tag("a b:c")
    assert parse(r'"a\"b\\c"') == Tag('a"b\\c')
    assert parse("`two words & a \\`") == ToolName("two words & a \\")


@pytest.mark.parametrize("tag", ["v1.2", "a/b", "a-b", "_", "0", "-", ".", "name", "plugin", "and", "not", "_a.B-9/z"])
def test_u12_a_plain_tag_is_written_bare(tag: str):
    assert parse(tag) == Tag(tag)
    assert Tag(tag).to_dsl() == tag


@pytest.mark.parametrize("tag", ["a:b", "name:x", "a b", "é", "e\u0301", '"', "\\", "\n", "^a", "`a`", "~", " "])
def test_u12_any_other_tag_is_written_in_double_quotes(tag: str):
    assert Tag(tag).to_dsl().startswith('"')
    assert parse(Tag(tag).to_dsl()) == Tag(tag)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("((a))", "a"),
        ("(a & b) | c", "a & b | c"),
        ("a & (b | c)", "a & (b | c)"),
        ("a & (b & c)", "a & b & c"),
        ("~(a)", "~a"),
        ("~(a | b)", "~(a | b)"),
        ("~((~a) & ^b)", "~(~a & prefix:b)"),
        ("`x y`|name:z", 'name:"x y" | name:z'),
    ],
)
def test_e7_the_text_has_no_parenthesis_too_many(text: str, written: str):
    assert str(parse(text)) == parse(text).to_dsl() == written


TEXTS = st.one_of(st.sampled_from(["a", "b", "c", "name:a", "a b"]), st.text(min_size=1, max_size=6))


ATOMS = st.one_of(*(st.builds(kind, TEXTS) for kind in (Tag, ToolName, Prefix, FromPlugin)), st.just(NOTHING))


TREES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: And(*parts)),
        st.lists(inner, min_size=2, max_size=4).map(lambda parts: Or(*parts)),
        st.lists(TEXTS, min_size=1, max_size=3).map(lambda tags: TagSet(*tags)),
        st.lists(TEXTS, min_size=1, max_size=3).map(lambda tags: TagNotSet(*tags)),
    ),
    max_leaves=20,
)


SUBJECTS = [
    tool(*names, plugin=plugin, tags=tags)
    for names in (("a",), ("b", "a"), ("c",))
    for plugin in ("app", "a")
    for tags in ("", "a", "b c", ["a b"])
]


@settings(max_examples=examples(1000))
@given(TREES)
def test_e7_writing_and_parsing_are_inverse(tree: ToolExpression):
    again = parse(tree.to_dsl())
    assert again == tree
    assert hash(again) == hash(tree)
    assert [again.matches(subject) for subject in SUBJECTS] == [tree.matches(subject) for subject in SUBJECTS]
    assert again.to_dsl() == tree.to_dsl()


@settings(max_examples=examples(300))
@given(TREES)
def test_every_pair_of_parentheses_is_needed(tree: ToolExpression):
    # Parentheses inside quotes are text; only those outside are looked at.
    text, quoted, opened = tree.to_dsl(), False, list[int]()
    for i, char in enumerate(text):
        if char == '"' and (len(text[:i]) - len(text[:i].rstrip("\\"))) % 2 == 0:
            quoted = not quoted
        elif char == "(" and not quoted:
            opened.append(i)
        elif char == ")" and not quoted:
            j = opened.pop()
            assert parse(text[:j] + " " + text[j + 1 : i] + " " + text[i + 1 :]) != tree


@settings(max_examples=examples(1000))
@given(st.one_of(st.text(), st.text(alphabet='ab~&|()"`^:\\ \n,!,and', max_size=30)))
def test_u11_any_text_parses_or_raises_with_a_place_inside_it(text: str):
    error: ExpressionParseError | None = None
    expression: ToolExpression | None = None
    try:
        expression = parse(text)
    except ExpressionParseError as caught:
        error = caught
    if expression is not None:
        assert parse(expression.to_dsl()) == expression
    if error is not None:
        lines = text.split("\n")
        assert 1 <= error.line <= len(lines)
        assert error.context == lines[error.line - 1]
        assert 1 <= error.column <= len(error.context) + 1
        assert "\x1b" not in str(error)


@pytest.mark.parametrize("opening", ["(", "~", "~("])
def test_e7_nesting_is_limited_in_text(opening: str):
    def nested(levels: int) -> str:
        return (opening * levels)[:levels] + "a" + ")" * (opening * levels)[:levels].count("(")

    parse(nested(MAX_NESTING))
    with pytest.raises(ExpressionParseError, match="more than 50") as caught:
        parse(nested(MAX_NESTING + 1))
    assert caught.value.column == MAX_NESTING + 1
    with pytest.raises(ExpressionParseError):
        parse(nested(100_000))


def test_e7_nesting_is_limited_for_expressions_made_in_python_so_that_all_can_be_written():
    deep: ToolExpression = Tag("a")
    for level in range(MAX_NESTING):
        deep = ~deep if level % 2 else deep & Tag("b") | Tag("c")
    assert parse(deep.to_dsl()) == deep
    while deep._nesting < MAX_NESTING:
        deep = ~deep
    with pytest.raises(ValueError, match="at most 50"):
        Not(deep)
    joined = deep & Tag("b")
    assert parse(joined.to_dsl()) == joined


def test_width_is_not_limited():
    names = [f"t{i}" for i in range(5000)]
    wide = as_expression(names)
    assert parse(wide.to_dsl()) == wide
    assert wide.matches(tool("t4999"))


@pytest.mark.parametrize(
    ("text", "column", "says"),
    [
        ("", 1, "empty expression"),
        ("  \n ", 1, "empty expression"),
        ("a and b", 3, "use &"),
        ("a OR b", 3, "use |"),
        ("not a", 1, "use ~"),
        ("a & not b", 5, "use ~"),
        ("(a or b)", 4, "use |"),
        ("a, b", 2, "use | for either, & for both"),
        ("!a", 1, "use ~"),
        ("a && b", 4, "use one &"),
        ("a || b", 4, "use one |"),
        ("api_*", 5, "^x, without name:, selects"),
        ("name:^api_", 6, "^x stands alone"),
        ("'a'", 1, "double quotes"),
        ("a b", 3, '"a …"'),
        ("a & ", 5, "expected a tag, found the end"),
        ("(a", 3, "expected & or | or ), found the end"),
        ("a)", 2, "expected & or |, found ')'"),
        ("()", 2, "expected a tag, found ')'"),
        ("foo:bar", 4, "double quotes"),
        ("name:a:b", 7, "double quotes"),
        ("name: x", 6, "right here"),
        ("^", 2, "right here, found the end"),
        ('a & "b', 5, "not closed"),
        ('name:"b\\n"', 6, "backslash"),
        ("`b", 1, "not closed"),
        ('""', 1, "nothing between the quotes"),
        ('plugin:""', 1, "nothing between the quotes"),
        ("réseau", 2, "U+00E9"),
        ("\u201ca\u201d", 1, "U+201C"),
        ("a\u00a0& b", 2, "U+00A0"),
    ],
)
def test_u11_errors_have_a_place_and_a_way_out(text: str, column: int, says: str):
    with pytest.raises(ExpressionParseError) as caught:
        parse(text)
    error = caught.value
    assert says in error.message
    assert (error.line, error.column) == (1, column)
    assert isinstance(error, ValueError)


def test_u11_an_error_shows_its_line_with_a_caret():
    with pytest.raises(ExpressionParseError) as caught:
        parse("read |\nwrite and x\n| y")
    error = caught.value
    assert (error.line, error.column, error.context) == (2, 7, "write and x")
    assert str(error).splitlines()[1:] == ["  write and x", "        ^"]
    assert str(error).startswith("line 2, column 7: ")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.column) == (str(error), 7)


def test_an_error_in_a_long_line_stays_short_and_its_caret_true():
    with pytest.raises(ExpressionParseError) as caught:
        parse("a | " * 10_000 + "! | \x1b[31m" + "b" * 10_000)
    _, line, caret = str(caught.value).splitlines()
    assert len(line) < 90
    assert line[caret.index("^")] == "!"
    assert "\x1b" not in line


def test_a_hint_about_a_doubled_operator_is_given_for_a_doubled_one_only():
    with pytest.raises(ExpressionParseError) as caught:
        parse("a & | b")
    assert "enough" not in caught.value.message


# --- the boundary ---


def test_as_expression_string_is_parsed_list_is_names_expression_is_itself():
    expression = Tag("a") & Tag("b")
    assert as_expression(expression) is expression
    assert as_expression("a & b") == expression
    assert as_expression(["a", "b", "a"]) == ToolName("a") | ToolName("b")
    assert as_expression(("a & b",)) == ToolName("a & b")
    assert as_expression({"b", "a"}) == as_expression(frozenset({"a", "b"})) == ToolName("a") | ToolName("b")


def test_an_empty_list_selects_nothing_and_can_be_written():
    assert as_expression([]) == as_expression(set()) == NOTHING
    assert parse(NOTHING.to_dsl()) == NOTHING
    assert chosen(NOTHING) == []
    assert not NOTHING.matches(tool(""))
    assert chosen(~NOTHING) == chosen(parse('~name:""')) == ["get_balance", "rotate", "slow"]


@pytest.mark.parametrize(
    "value",
    [None, 1, True, {"execute": True}, b"a", [1], ["a", None], pytest.param(iter("ab"), id="iterator")],
    ids=repr,
)
def test_as_expression_refuses_all_else(value: Any):
    with pytest.raises(TypeError):
        as_expression(value)


def test_as_expression_refuses_an_empty_name():
    with pytest.raises(ValueError, match="empty list"):
        as_expression(["a", ""])


# --- a Pydantic AI tool selector (E10) ---


def toolset() -> FunctionToolset[None]:
    made = FunctionToolset[None]()

    @made.tool_plain(metadata={"tags": ["finance"]})
    def get_balance() -> int:
        return 1

    @made.tool_plain(metadata={"tags": {"finance", "internal"}})
    def rotate() -> int:
        return 2

    @made.tool_plain
    def slow() -> int:
        return 3

    assert [get_balance(), rotate(), slow()] == [1, 2, 3]
    return made


def shown(expression: ToolExpression) -> list[str]:
    model = TestModel(call_tools=[])
    asyncio.run(Agent(model, toolsets=[toolset().filtered(expression)]).run("x"))
    assert model.last_model_request_parameters is not None
    return [tool.name for tool in model.last_model_request_parameters.function_tools]


def test_e10_an_expression_filters_a_real_toolset():
    assert shown(Tag("finance") & ~Tag("internal")) == ["get_balance"]
    assert shown(Tag("finance") & ~Tag("internal") | ToolName("slow")) == ["get_balance", "slow"]
    assert shown(Tag("write")) == ["slow"]
    assert shown(~FromPlugin("bank")) == ["get_balance", "rotate", "slow"]
    assert shown(NOTHING) == []


def test_e10_an_expression_is_a_tool_selector_of_capabilities():
    definition = ToolDefinition(name="a", metadata={"tags": ["x"]})
    context: Any = None
    assert asyncio.run(matches_tool_selector(Tag("x"), context, definition)) is True
    assert asyncio.run(matches_tool_selector(Tag("a"), context, definition)) is False


def test_the_facts_about_a_tool_that_no_kernel_attributed_are_what_it_says_of_itself():
    assert tool_facts(ToolDefinition(name="a")) == tool("a", tags="write")
    metadata = {"original": "b", "plugin": "p", "tags": ["x", "y"], "meta": {}}
    assert tool_facts(ToolDefinition(name="a", metadata=metadata)) == tool("a", tags="x y")


@pytest.mark.parametrize("bad", ["network", ["a", 1], {"a": 1}], ids=repr)
def test_a_tool_whose_tags_cannot_be_read_is_an_error_and_not_a_tool_without_tags(bad: Any):
    with pytest.raises(TypeError, match="'fetch'"):
        (~Tag("network"))(None, ToolDefinition(name="fetch", metadata={"tags": bad}))


# --- pydantic (E11) ---


class Section(BaseModel):
    tools: ToolExpression = Tag("read") & ~Tag("network")
    approve: bool | ToolExpression | None = None


@pytest.mark.parametrize(
    ("value", "written"),
    [
        ("finance & ~internal", "finance & ~internal"),
        (Tag("a") | Prefix("b"), "a | prefix:b"),
        (["x", "y"], "name:x | name:y"),
        ([], 'name:""'),
    ],
)
def test_e11_a_field_takes_expressions_strings_and_lists_and_is_dumped_as_text(value: Any, written: str):
    section = Section(tools=value)
    assert section.tools == as_expression(value)
    assert section.model_dump()["tools"] == section.model_dump(mode="json")["tools"] == written
    assert Section.model_validate_json(section.model_dump_json(), strict=True) == section
    assert Section.model_validate(section.model_dump()) == section


def test_e11_defaults_and_unions():
    assert Section().model_dump() == {"tools": "read & ~network", "approve": None}
    assert Section(approve=True).approve is True
    assert Section.model_validate({"approve": "read"}).approve == Tag("read")
    assert Section().model_copy(deep=True) == Section()


def test_e11_errors_carry_the_field_and_the_caret():
    with pytest.raises(ValidationError) as caught:
        Section.model_validate({"tools": "a and b"})
    (error,) = caught.value.errors()
    assert error["loc"] == ("tools",)
    assert "use &" in error["msg"]
    assert "^" in error["msg"]
    for wrong in (1, {"a": 1}, [1]):
        with pytest.raises(ValidationError):
            Section.model_validate({"tools": wrong})


def test_e11_a_field_of_one_kind_takes_that_kind_only():
    assert TypeAdapter(Tag).validate_python("a") == Tag("a")
    with pytest.raises(ValidationError, match="is not a Tag"):
        TypeAdapter(Tag).validate_python("a & b")


def test_e11_json_schema():
    adapter = TypeAdapter(ToolExpression)
    assert adapter.json_schema(mode="serialization") == {"type": "string"}
    assert adapter.json_schema() == {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_expressions_can_be_copied_and_pickled(copied: Any):
    expression = (Tag("a") | ~Prefix("b")) & ToolName("c") & TagNotSet("x", "y")
    again = copied(expression)
    assert again == expression
    assert hash(again) == hash(expression)
    assert (~again).to_dsl() == (~expression).to_dsl()


def test_importing_expressions_loads_neither_pydantic_nor_pydantic_ai():
    code = (
        "import sys, tool_expressions\n"
        "print([m for m in ('pydantic', 'pydantic_core', 'pydantic_ai') if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_text_is_checked_and_stays_as_it_was_written() -> None:
    assert checked_expression(" read  & ~network ") == " read  & ~network "
    with pytest.raises(ExpressionParseError, match="line 1, column 2"):
        checked_expression("(")
