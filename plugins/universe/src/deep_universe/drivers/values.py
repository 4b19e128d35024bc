"""Values in tags that have no types: text, or JSON, and how to tell one from the other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .json_body import dump, load

if TYPE_CHECKING:
    from pydantic_ai.tools import ToolDefinition

__all__ = ["TextParameters", "read_key", "read_value", "write_key", "write_value"]

PLAIN_KEY = re.compile(r"[A-Za-z0-9_$][A-Za-z0-9_.$-]*\Z")


class TextParameters:
    """Which parameters of the offered tools are text, so that `{}` and `02` stay text there.

    Arguments:
        tools: the tools that were offered; without them every value that is JSON is read as JSON.

    Attributes:
        tools: the names of the tools.
    """

    def __init__(self, tools: Sequence[ToolDefinition] = ()) -> None:
        self.tools = frozenset(tool.name for tool in tools)
        self._types: dict[tuple[str, str], set[str]] = {}
        for tool in tools:
            schema = tool.parameters_json_schema
            properties = cast("Mapping[str, Any]", schema.get("properties") or {})
            for name, each in properties.items():
                self._types[tool.name, name] = _types(each, schema)

    def read(self, tool: str, parameter: str, written: str, *, unknown_is_text: bool = False) -> object:
        """Read a value as the tool's schema wants it; of a parameter that was not offered, as JSON or as text."""
        accepts = self._types.get((tool, parameter))
        if accepts is None:
            return written if unknown_is_text else read_value(written)
        value = read_value(written)
        text = "string" in accepts and accepts <= {"string", "null"}
        if not text or isinstance(value, str) or (value is None and "null" in accepts):
            return value
        return written


def _types(schema: object, root: Mapping[str, Any], depth: int = 0) -> set[str]:
    """The JSON types that a schema accepts; `any` if it does not say."""
    if not isinstance(schema, Mapping) or depth > 8:
        return {"any"}
    schema = cast("Mapping[str, Any]", schema)
    reference = schema.get("$ref")
    if isinstance(reference, str):
        definitions = cast("Mapping[str, Any]", root.get("$defs") or {})
        return _types(definitions.get(reference.removeprefix("#/$defs/")), root, depth + 1)
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return set[str]().union(*(_types(each, root, depth + 1) for each in schema[key]))
    types = schema.get("type")
    if isinstance(types, str):
        return {types}
    if isinstance(types, list):
        return {str(each) for each in cast("list[object]", types)}
    allowed: object = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    if isinstance(allowed, list) and allowed and all(isinstance(each, str) for each in cast("list[object]", allowed)):
        return {"string"}
    return {"any"}


def read_value(written: str) -> object:
    """Read JSON if it is JSON, else text. `"02"` in quotes is the text `02`."""
    try:
        return load(written)
    except ValueError:
        return written


def write_value(value: object, escape: re.Pattern[str], framed: bool = False) -> str:
    """Write a value so that `read_value` reads the same: text as it is, or JSON if it looks like JSON or markup.

    Arguments:
        value: JSON data.
        escape: finds markup.
        framed: a line break before and after the value belongs to the tags.
    """
    plain = isinstance(value, str) and (framed or value == value.strip("\n"))
    if isinstance(value, str) and plain and not escape.search(value) and read_value(value) == value:
        return value
    return dump(value, escape)


def read_key(written: str) -> str:
    """Read a parameter's name."""
    value = read_value(written) if written.startswith('"') else written
    return value if isinstance(value, str) else written


def write_key(key: str) -> str:
    """Write a parameter's name; as a JSON string if it is not a plain word."""
    return key if PLAIN_KEY.match(key) else dump(key, re.compile(r"[<>&='/]"))
