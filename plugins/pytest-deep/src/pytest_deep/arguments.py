"""Arguments for a stranger's tool: the least that its JSON schema takes, and what a confused model may send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

__all__ = ["fill", "garbage", "least"]

DEPTH = 8
"""How far a schema that refers to itself is followed."""


def least(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """The smallest object that the schema takes, with `text` wherever any text will do.

    Optional parameters that take text are given too: what a session says should reach what the tool keeps.
    """
    return _object(schema, schema, text, DEPTH, optional_text=True)


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> Any:
    if "$ref" in schema:
        return None if depth <= 0 else _value(_resolved(schema["$ref"], root), root, text, depth - 1)
    for key in ("const", "default"):
        if key in schema:
            return schema[key]
    if schema.get("examples"):
        return schema["examples"][0]
    if schema.get("enum"):
        return schema["enum"][0]
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key):
            return _value({**schema[key][0]}, root, text, depth - 1)
    kind: Any = schema.get("type")
    kind = cast("list[Any]", kind)[0] if isinstance(kind, list) else kind
    if kind == "object":
        return _object(schema, root, text, depth - 1)
    if kind == "array":
        return _array(schema, root, text, depth - 1)
    if kind in ("integer", "number"):
        return _number(schema, kind)
    return {"boolean": False, "null": None}[kind] if kind in ("boolean", "null") else _text(schema, text)


def _object(
    schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int, *, optional_text: bool = False
) -> dict[str, Any]:
    properties: Mapping[str, Any] = schema.get("properties", {})
    needed = [name for name in properties if name in schema.get("required", ())]
    if optional_text:
        needed += [name for name, part in properties.items() if name not in needed and _is_free_text(part)]
    return {name: _value(properties[name], root, text, depth) for name in needed} if depth > 0 else {}


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not {"default", "enum", "const", "pattern", "format"} & schema.keys()


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> list[Any]:
    # One item where there may be one: an empty list would call the tool without saying anything.
    count = max(schema.get("minItems", 0), 1 if schema.get("maxItems", 1) else 0) if depth > 0 else 0
    return [_value(schema.get("items", {}), root, text, depth) for _ in range(count)]


def _number(schema: Mapping[str, Any], kind: str) -> int | float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
    high = schema.get("maximum", low + 1)
    value = min(max(1, low), high)
    return int(value) if kind == "integer" else float(value)


def _text(schema: Mapping[str, Any], text: str) -> str:
    known = {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00", "email": "a@example.com"}
    known |= {"uri": "https://example.com", "uuid": "00000000-0000-4000-8000-000000000000"}
    if schema.get("format") in known:
        return known[schema["format"]]
    long_enough = text.ljust(schema.get("minLength", 0), "x")
    return long_enough[: schema.get("maxLength")]


def _resolved(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Any = root
    for part in reference.removeprefix("#/").split("/"):
        found = found[part.replace("~1", "/").replace("~0", "~")]
    return cast("Mapping[str, Any]", found)


def fill(example: Any, text: str) -> Any:
    """An author's example with `{canary}` replaced."""
    if isinstance(example, str):
        return example.replace("{canary}", text)
    if isinstance(example, Mapping):
        return {key: fill(value, text) for key, value in cast("Mapping[Any, Any]", example).items()}
    if isinstance(example, list | tuple):
        return [fill(value, text) for value in cast("list[Any]", example)]
    return example


def garbage(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """What a confused model may send: nothing, the wrong types, unknown names, and texts that no schema forbids."""
    names: list[str] = list(schema.get("properties", {}))
    yield {}
    yield {"no_such_parameter": 1}
    yield {name: {"wrong": ["type"]} for name in names}
    yield {**least(schema, ""), "no_such_parameter": 1}
    for text in ("", "\x00\x1b[31m\u202e", "../../../../etc/passwd", "x" * 20_000):
        yield least(schema, text)
