"""The text below a field describes it in the JSON schema; a project's file can only narrow what its author marked."""

from __future__ import annotations

import inspect
import re
import warnings
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AliasChoices, Field

from deep_core import ConfigError, PluginOptions
from deep_core.plugins.options import field_docs, validate_options
from deep_core.plugins.settings import PluginSettings


class Base(PluginOptions):
    """Some options."""

    unit: str = "celsius"
    """The unit of temperatures.

    Celsius or kelvin.
    """
    plain: int = 1
    given: int = Field(default=1, description="Said in code.")
    """Said below."""


class Outer(Base):
    """More of them."""

    own: Base = Base()
    """Of its own."""


def test_texts_below_fields_are_in_the_schema() -> None:
    properties = Outer.model_json_schema()["properties"]
    assert properties["unit"]["description"] == "The unit of temperatures.\n\nCelsius or kelvin."
    assert "description" not in properties["plain"]
    assert properties["given"]["description"] == "Said in code."
    assert properties["own"]["description"] == "Of its own."
    assert Outer.model_json_schema()["$defs"]["Base"]["properties"]["unit"]["description"].startswith("The unit")


def test_a_model_without_source_has_a_schema_without_texts() -> None:
    namespace: dict[str, Any] = {"PluginOptions": PluginOptions}
    exec("class Made(PluginOptions):\n    unit: str = 'x'\n    'never seen'\n", namespace)
    assert field_docs(namespace["Made"]) == {}
    assert namespace["Made"].model_json_schema()["properties"]["unit"]["type"] == "string"


def test_making_a_model_reads_no_source(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*args: object) -> Any:
        raise AssertionError("the source was read")

    monkeypatch.setattr(inspect, "getsource", never)
    monkeypatch.setattr(inspect, "getblock", never)

    class Quick(PluginOptions):
        unit: str = "celsius"
        """The unit."""

    assert Quick().unit == "celsius"


def marked(mark: str, **more: Any) -> Any:
    return Field(json_schema_extra={"project": mark}, **more)


class Marked(PluginOptions):
    """One option for each mark."""

    plain: int = 5
    """No mark."""
    free: Annotated[str, marked("free")] = "a"
    """Any value."""
    off: Annotated[bool, marked("off")] = True
    """Only false."""
    on: Annotated[bool, marked("on")] = False
    """Only true."""
    lower: Annotated[int | None, marked("lower", ge=0)] = 5
    """Only lower."""
    subset: Annotated[tuple[str, ...], marked("subset")] = ("a", "b")
    """Only fewer."""
    superset: Annotated[tuple[str, ...], marked("superset")] = ("a",)
    """Only more."""
    other: Annotated[int, marked("lower", validation_alias=AliasChoices("other", "otherName"))] = 5
    """Under two names."""


FILE = "/repo/deep.toml"
NUMBERS = st.none() | st.integers(0, 9)
LISTS = st.lists(st.sampled_from("abc"), max_size=3)
VALUES = {
    "plain": st.integers(0, 9),
    "free": st.sampled_from("abc"),
    "off": st.booleans(),
    "on": st.booleans(),
    "lower": NUMBERS,
    "subset": LISTS,
    "superset": LISTS,
    "other": st.integers(0, 9),
}
TABLES = st.fixed_dictionaries({}, optional=VALUES)


def resolved(
    user: dict[str, Any], project: dict[str, Any], code: dict[str, Any] | None = None
) -> tuple[dict[str, Any], dict[str, str], set[str]]:
    """The options in effect, the source of each, and the options that a warning says are ignored."""
    settings = PluginSettings(
        options=user,
        project_options={key: (value, FILE) for key, value in project.items()},
        sources={f"options.{key}": "user" for key in user},
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        options, sources = validate_options("marks", Marked, settings, code)
    (text,) = [str(warning.message) for warning in caught] or [""]
    assert not text or (text.startswith(FILE) and "deep config trust" in text)
    return options.model_dump(), dict(sources), {*re.findall(r"plugins\.marks\.options\.(\w+)", text)}


def is_narrower(name: str, new: Any, old: Any) -> bool:
    """What the marks promise, in other words than the kernel's."""
    match name:
        case "free":
            return True
        case "off":
            return not new
        case "on":
            return bool(new)
        case "lower" | "other":
            return old is None if new is None else old is None or new <= old
        case "subset":
            return all(item in old for item in new)
        case "superset":
            return all(item in new for item in old)
        case _:
            return False


@given(user=TABLES, project=TABLES, code=TABLES)
def test_a_project_narrows_marked_options_and_changes_no_other(
    user: dict[str, Any], project: dict[str, Any], code: dict[str, Any]
) -> None:
    before = Marked(**{**user, **code}).model_dump()
    after, sources, ignored = resolved(user, project, code)
    for name, old in before.items():
        if name in code or name not in project:
            assert after[name] == old
            assert name not in ignored
        elif is_narrower(name, project[name], old) and not (name == "lower" and project[name] is None):
            assert after[name] == (tuple(project[name]) if isinstance(project[name], list) else project[name])
            assert sources[name] == FILE
        else:
            assert after[name] == old
            assert name in ignored


def test_a_project_cannot_set_an_option_under_another_name() -> None:
    after, sources, ignored = resolved({"other": 3}, {"otherName": 4})
    assert (after["other"], sources, ignored) == (3, {"other": "user"}, {"otherName"})
    after, sources, ignored = resolved({"other": 3}, {"otherName": 2})
    assert (after["other"], sources, ignored) == (2, {"otherName": FILE, "other": FILE}, set())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"lower": "many"}, r"/repo/deep\.toml: plugins\.marks\.options\.lower"),
        ({"lowr": 3}, r"/repo/deep\.toml: plugins\.marks\.options\.lowr: unknown option\. Did you mean 'lower'"),
    ],
    ids=["wrong", "unknown"],
)
def test_a_wrong_option_of_a_project_is_an_error_that_names_the_file(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        resolved({}, given)


def test_a_misspelt_mark_is_an_error_where_the_model_is_written() -> None:
    with pytest.raises(TypeError, match=r"Wrong\.days: project is one of free, .*; not 'lowr'"):

        class Wrong(PluginOptions):  # pyright: ignore[reportUnusedClass]
            """Wrong."""

            days: Annotated[int, marked("lowr")] = 3
            """Days."""
