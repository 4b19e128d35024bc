"""A rule that matches no tool: the error says which part, and suggests what was meant."""

from __future__ import annotations

import pickle

import pytest
from tool_expressions import (
    NOTHING,
    FromPlugin,
    Tag,
    ToolExpression,
    ToolFacts,
    UnmatchedExpression,
    as_expression,
    check_matches,
    unmatched_atoms,
)

parse = ToolExpression.parse


def tool(*names: str, tags: str = "", plugin: str = "app") -> ToolFacts:
    return ToolFacts(names[0], names[-1], plugin, tuple(tags.split()))


INSTALLED = (
    tool("execute", tags="destructive write", plugin="filesystem"),
    tool("read_file", tags="read", plugin="filesystem"),
    tool("delete", tags="write destructive", plugin="filesystem"),
    tool("weather_forecast", "forecast", tags="read network", plugin="weather"),
)


def complaint(text: str | ToolExpression | list[str], subjects: tuple[ToolFacts, ...] = INSTALLED) -> str:
    with pytest.raises(UnmatchedExpression) as caught:
        check_matches(as_expression(text), subjects, where="interrupt_on")
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("execute", "no tool tagged 'execute'; did you mean name:execute?"),
        ("weather", "no tool tagged 'weather'; did you mean plugin:weather?"),
        ("READ", "no tool tagged 'READ'; did you mean 'read'?"),
        ("destuctive", "no tool tagged 'destuctive'; did you mean 'destructive'?"),
        ("delte", "no tool tagged 'delte'; did you mean name:delete?"),
        ("xyzzy", "no tool tagged 'xyzzy'; tags: 'destructive', 'network', 'read', 'write'"),
        ("name:delte", "no tool named 'delte'; did you mean 'delete'?"),
        ("name:read", "no tool named 'read'; did you mean read?"),
        ("name:forcast", "no tool named 'forcast'; did you mean 'forecast'?"),
        (
            "name:xyzzy",
            "no tool named 'xyzzy'; tools: 'execute', 'read_file', 'delete', 'weather_forecast', 'forecast'",
        ),
        ("^Read_", "no tool name starts with 'Read_'; did you mean 'read_'?"),
        ("plugin:filesytem", "no tool from plugin 'filesytem'; did you mean 'filesystem'?"),
        ("plugin:xyzzy", "no tool from plugin 'xyzzy'; plugins: 'filesystem', 'weather'"),
    ],
)
def test_a_single_atom_without_a_tool_is_an_error_that_suggests(text: str, message: str):
    assert complaint(text) == f"interrupt_on: {message}"


def test_only_the_whole_must_match_a_tool():
    for fine in ("read", "read | delte", "~xyzzy", "read & ~xyzzy", "~network", ["delete", "delte"]):
        check_matches(as_expression(fine), INSTALLED, where="tool_filter")
    check_matches(NOTHING, INSTALLED, where="tool_filter")
    check_matches(as_expression([]), (), where="tool_filter")


def test_a_whole_without_a_tool_names_its_dead_parts_but_not_the_negated_ones():
    message = complaint("reed & ~xyzzy & plugin:wether")
    assert message == (
        "interrupt_on: reed & ~xyzzy & plugin:wether matches no tool: "
        "no tool tagged 'reed'; did you mean 'read'?; no tool from plugin 'wether'; did you mean 'weather'?"
    )
    assert complaint("read & write").endswith("its parts match tools, but no tool matches the whole")
    assert complaint("~(read | write)").endswith("no tool matches the whole")


def test_without_any_tool_the_error_says_that_there_is_none():
    assert complaint("read", ()) == "interrupt_on: no tool tagged 'read'; tags: none"


def test_the_list_of_alternatives_is_bounded():
    message = complaint("xyzzy", tuple(tool(f"t{i}", tags=f"tag{i}") for i in range(500)))
    assert message.endswith("tags: 'tag0', 'tag1', 'tag10', 'tag100', 'tag101', …")
    assert len(complaint([f"q{i}" for i in range(500)])) < 1000


def test_unmatched_atoms_are_reported_with_their_sign_so_that_callers_can_warn():
    found = unmatched_atoms(parse('read | delte | delte | ~(netwrok | ~plugin:x) | name:""'), INSTALLED)
    assert [(part.atom, part.negated) for part in found] == [
        (Tag("delte"), False),
        (Tag("netwrok"), True),
        (FromPlugin("x"), False),
    ]
    assert found[1].problem == "no tool tagged 'netwrok'; did you mean 'network'?"
    assert [part.near for part in found] == [True, True, False]
    assert unmatched_atoms(parse("read & ~network"), INSTALLED) == ()
