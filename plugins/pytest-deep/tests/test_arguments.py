"""The arguments that the suite makes from a schema are valid for it."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter
from pytest_deep.arguments import fill, garbage, least


class Colour(Enum):
    RED = "red"


class Place(BaseModel):
    city: str
    country: Annotated[str, Field(min_length=2, max_length=2)]
    near: list[Place] = []


class Everything(BaseModel):
    text: str
    number: Annotated[int, Field(ge=5, le=9)]
    above: Annotated[int, Field(gt=5)]
    ratio: Annotated[float, Field(le=0.5)]
    flag: bool
    nothing: None
    choice: Literal["a", "b"]
    colour: Colour
    either: int | str
    maybe: str | None
    several: Annotated[list[str], Field(min_length=3)]
    nested: Place
    table: dict[str, int]
    given: str = "a default"
    more: str | None = None


def test_the_least_arguments_are_valid() -> None:
    made = least(Everything.model_json_schema(), "canary-of-a-session")
    checked = TypeAdapter(Everything).validate_python(made)
    assert checked.text == "canary-of-a-session"
    assert checked.nested.city == "canary-of-a-session"
    assert len(checked.several) == 3
    assert "given" not in made


def test_an_optional_text_is_given_so_that_what_a_session_says_reaches_the_tool() -> None:
    schema: dict[str, Any] = {"properties": {"note": {"type": "string"}, "depth": {"type": "integer"}}}
    assert least(schema, "canary") == {"note": "canary"}


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema: dict[str, Any] = {
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "required": ["node"],
    }
    assert set(least(schema, "x")) == {"node"}


def test_an_example_is_filled_with_the_sessions_own_text() -> None:
    example = {"todos": [{"content": "ask {canary}"}], "count": 2}
    assert fill(example, "me") == {"todos": [{"content": "ask me"}], "count": 2}


@pytest.mark.parametrize("index", range(8))
def test_garbage_has_every_kind_for_any_schema(index: int) -> None:
    schema = {"properties": {"city": {"type": "string"}}, "required": ["city"]}
    assert isinstance(list(garbage(schema))[index], dict)
    assert len(list(garbage({"properties": {}}))) == 8
