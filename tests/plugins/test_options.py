"""The text below a field describes it in the JSON schema; making the model reads no source."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
from pydantic import Field

from deep_core import PluginOptions
from deep_core.plugins.options import field_docs


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
