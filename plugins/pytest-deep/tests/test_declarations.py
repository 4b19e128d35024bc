"""The checks of a plugin's declarations, one rule at a time."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict
from pydantic_ai import ToolDefinition
from pytest_deep.declarations import (
    check_descriptions,
    check_docs,
    check_metadata,
    check_name,
    check_options,
    check_slot,
    check_tool_names,
)
from pytest_deep.subject import Subject

from deep_core import Kernel, PluginOptions, StateSlot


def subject(name: str) -> Subject:
    return Subject(name, object(), "acme", None, ())


def texts(problems: Any) -> list[str]:
    return [str(problem) for problem in problems]


@pytest.mark.parametrize("name", ["weather", "w", "acme_weather_2", "a" * 40])
def test_good_names(name: str) -> None:
    assert texts(check_name(subject(name))) == []


@pytest.mark.parametrize("name", ["Weather", "acme-weather", "2weather", "a" * 41, ""])
def test_names_that_are_not_plain(name: str) -> None:
    assert len(texts(check_name(subject(name)))) == 1


def test_a_name_that_is_a_parameter() -> None:
    (text,) = texts(check_name(subject("tools")))
    assert "is a parameter of create_deep_agent" in text
    assert "rename it: acme_tools" in text


@pytest.mark.parametrize("good", ["<1,>=0.1", "~=0.1", "==0.1.*", "<=0.9"])
def test_a_bounded_range(good: str) -> None:
    assert texts(check_metadata(good)) == []


@pytest.mark.parametrize("bad", ["", ">=0.1", "!=0.2", ">0"])
def test_a_range_without_an_upper_bound(bad: str) -> None:
    (text,) = texts(check_metadata(bad))
    assert '"deep-agent-core>=0.1,<1"' in text


def test_docs_that_are_missing_are_each_reported() -> None:
    found = texts(check_docs(subject("weather"), " ", {"summary": "", "readme": "short"}))
    assert [text.partition("\n")[0] for text in found] == [
        "acme: has no docstring",
        "pyproject.toml: has no description",
        "pyproject.toml: has a README of 5 characters; the minimum is 80",
    ]
    (none,) = texts(check_docs(subject("weather"), "Weather.", {"summary": "Weather.", "readme": ""}))
    assert none.startswith("pyproject.toml: has no README\n")
    assert texts(check_docs(subject("weather"), "Weather.", {"summary": "Weather.", "readme": "x" * 80})) == []
    assert texts(check_docs(subject("weather"), "Weather.", None)) == []


def test_options_that_cannot_be_made_or_take_anything() -> None:
    class Needs(PluginOptions):
        key: str

    class Loose(BaseModel):
        model_config = ConfigDict(extra="ignore")
        unit: str = "celsius"

    class Good(PluginOptions):
        unit: str = "celsius"

    (needs,) = texts(check_options(Needs))
    assert "cannot be created without arguments: key: Field required" in needs
    (loose,) = texts(check_options(Loose))
    assert "silently accepts an unknown key" in loose
    assert texts(check_options(Good)) == []


class Opaque:
    pass


SHARED: list[str] = []
SLOTS: list[tuple[StateSlot[Any], str | None]] = [
    (StateSlot("names", list[str], list), None),
    (StateSlot("opaque", Opaque, Opaque), "cannot be stored"),
    (StateSlot("opaque", Opaque, Opaque, persist=False), None),
    (StateSlot("shared", list[str], lambda: SHARED), "one object for all sessions"),
    (StateSlot("raises", list[str], lambda: [][0]), "its default raises IndexError"),
    (StateSlot("wrong", list[str], lambda: [1]), "does not load what it stored"),  # type: ignore[list-item]
    (StateSlot("keyed", dict[int, str], lambda: {1: "a"}), None),
]


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings")
@pytest.mark.parametrize(("slot", "said"), SLOTS)
def test_slots(slot: StateSlot[Any], said: str | None) -> None:
    with Kernel(discover=False) as kernel:
        found = texts(check_slot(slot, kernel))
    assert len(found) == (0 if said is None else 1), found
    assert said is None or said in found[0]


def test_tool_names() -> None:
    listed = [("forecast", "a.py:1"), ("forecast", "b.py:2"), ("get weather", "a.py:3"), ("final_result", "a.py:4")]
    found = texts(check_tool_names(listed))
    assert [text.partition("\n")[0] for text in found] == [
        "tool 'forecast' (a.py:1): has the name of another tool of this plugin (b.py:2)",
        "tool 'get weather' (a.py:3): has a name that some providers reject",
        "tool 'final_result' (a.py:4): has a name reserved by Pydantic AI",
    ]


def test_a_description_that_is_too_long() -> None:
    tool = ToolDefinition(name="forecast", description="x" * 101)
    (text,) = texts(check_descriptions([tool], {}, 100))
    assert "has a description of 101 characters" in text
    assert texts(check_descriptions([tool], {}, 101)) == []
