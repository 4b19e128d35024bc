"""Words like `key=value`, parsed with a tool's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pytest
from deep_cli.failure import Failure
from deep_cli.run.call_arguments import parse_json, parse_pairs
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_ai import Tool


class Place(BaseModel):
    city: str


async def forecast(
    city: str,
    days: int = 1,
    metres: float = 0,
    hourly: bool = False,
    unit: Literal["C", "F"] = "C",
    year: Literal[2025, 2026] = 2025,
    station: int | None = None,
    note: str | None = None,
    mark: int | str = 0,
    tags: list[str] = [],  # noqa: B006
    limits: dict[str, int] = {},  # noqa: B006
    place: Place | None = None,
    extra: Any = None,
) -> str:
    """Tomorrow's weather."""
    return city


SCHEMA: Mapping[str, Any] = Tool(forecast).tool_def.parameters_json_schema


@pytest.mark.parametrize(
    ("typed", "value"),
    [
        ("city=Oslo", "Oslo"),
        ("city=", ""),
        ("city=a=b", "a=b"),
        ("city=5", "5"),
        ("city=true", "true"),
        ('city="Oslo"', '"Oslo"'),
        ("days=3", 3),
        ("days=-3", -3),
        ("metres=3", 3),
        ("metres=2.5", 2.5),
        ("hourly=true", True),
        ("hourly=false", False),
        ("unit=F", "F"),
        ("year=2026", 2026),
        ("station=7", 7),
        ("station=null", None),
        ("note=null", None),
        ("note=5", "5"),
        ("mark=5", 5),
        ("mark=five", "five"),
        ('tags=["a", "b"]', ["a", "b"]),
        ('limits={"a": 1}', {"a": 1}),
        ('place={"city": "Oslo"}', {"city": "Oslo"}),
        ("extra=5", 5),
        ("extra=five", "five"),
        ('extra=["a"]', ["a"]),
    ],
)
def test_the_schema_says_what_a_value_is(typed: str, value: Any) -> None:
    key = typed.partition("=")[0]
    given_pairs = [typed] if key == "city" else ["city=Oslo", typed]
    found = parse_pairs("forecast", given_pairs, SCHEMA)[key]
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ([], "forecast needs city. Type: deep call forecast city=TEXT [days=INTEGER]"),
        (["Oslo"], "'Oslo' is not KEY=VALUE. Type: deep call forecast city=TEXT"),
        (["=Oslo"], "'=Oslo' is not KEY=VALUE."),
        (["citty=Oslo"], "forecast has no argument 'citty'. Did you mean 'city'?"),
        (["city=Oslo", "city=Rome"], "'city' is given twice"),
        (["city=Oslo", "days=2.5"], "days='2.5' is not of type integer; type it as days=3"),
        (["city=Oslo", "days=true"], "days='true' is not of type integer"),
        (["city=Oslo", "hourly=yes"], "hourly='yes' is not of type boolean; type it as hourly=true"),
        (["city=Oslo", "metres=NaN"], "metres='NaN' is not of type number"),
        (["city=Oslo", "tags=a,b"], """type it as tags='["a", "b"]'"""),
        (["city=Oslo", 'place={"city"'], "is not of type null or object"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_what_to_type(typed: list[str], said: str) -> None:
    with pytest.raises(Failure) as caught:
        parse_pairs("forecast", typed, SCHEMA)
    assert said in caught.value.message
    assert caught.value.exit_code == 2


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_any_object_comes_through_as_json(value: dict[str, Any]) -> None:
    text = json.dumps(value)
    assert parse_json(text) == value
    assert parse_pairs("t", [f"extra={text}", "city=x"], SCHEMA)["extra"] == value


@given(st.text().filter(lambda text: not text.startswith("@")))
def test_any_text_comes_through_as_it_is(text: str) -> None:
    assert parse_pairs("forecast", [f"city={text}"], SCHEMA) == {"city": text}


def test_a_tool_that_takes_any_argument_takes_any_argument() -> None:
    schema = {"type": "object", "properties": {}, "additionalProperties": {"type": "integer"}}
    assert parse_pairs("count", ["apples=3"], schema) == {"apples": 3}
    assert parse_pairs("count", ["apples=3"], {**schema, "additionalProperties": True}) == {"apples": 3}


def test_a_file_is_read_and_then_taken_as_if_typed(tmp_path: Path) -> None:
    (tmp_path / "city").write_text("Oslo\n", encoding="utf-8")
    (tmp_path / "tags").write_text('["a"]\n', encoding="utf-8")
    found = parse_pairs("forecast", [f"city=@{tmp_path}/city", f"tags=@{tmp_path}/tags"], SCHEMA)
    assert found == {"city": "Oslo\n", "tags": ["a"]}
    (tmp_path / "city").write_bytes(b"\xff")
    with pytest.raises(Failure, match="not UTF-8 text"):
        parse_pairs("forecast", [f"city=@{tmp_path}/city"], SCHEMA)
    with pytest.raises(Failure, match=r"city=@nowhere: No such file .*; put a value that begins with @ into"):
        parse_pairs("forecast", ["city=@nowhere"], SCHEMA)


@pytest.mark.parametrize(
    ("text", "said"), [("[1]", "not an object"), ("{", "not JSON: "), ("@nowhere", "No such file")]
)
def test_json_that_is_no_object_is_an_error(text: str, said: str) -> None:
    with pytest.raises(Failure, match=said):
        parse_json(text)
