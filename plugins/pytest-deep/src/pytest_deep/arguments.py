"""Make arguments for a tool from its JSON schema: the smallest valid ones, and those of a confused model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

__all__ = ["fill", "garbage", "least"]

DEPTH = 8
"""How many levels of a recursive schema are filled."""


def least(schema: Mapping[str, Any], text: str) -> dict[str, Any]:
    """Make the smallest object that the schema accepts, with `text` wherever the schema accepts any text.

    Optional text parameters are filled too, so that a session's text reaches everything that the tool stores.
    """
    return _object(schema, schema, text, DEPTH, optional_text=True)


def _value(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> Any:
    if "$ref" in schema:
        return None if depth <= 0 else _value(_resolve(schema["$ref"], root), root, text, depth - 1)
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
    names = [name for name in properties if name in schema.get("required", ())]
    if optional_text:
        names += [name for name, part in properties.items() if name not in names and _is_free_text(part)]
    return {name: _value(properties[name], root, text, depth) for name in names} if depth > 0 else {}


def _is_free_text(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") == "string" and not {"default", "enum", "const", "pattern", "format"} & schema.keys()


def _array(schema: Mapping[str, Any], root: Mapping[str, Any], text: str, depth: int) -> list[Any]:
    # One item if allowed: an empty list would not carry the text to the tool.
    count = max(schema.get("minItems", 0), 1 if schema.get("maxItems", 1) else 0) if depth > 0 else 0
    return [_value(schema.get("items", {}), root, text, depth) for _ in range(count)]


def _number(schema: Mapping[str, Any], kind: str) -> int | float:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + ("exclusiveMinimum" in schema))
    high = schema.get("maximum", low + 1)
    value = min(max(1, low), high)
    return int(value) if kind == "integer" else float(value)


def _text(schema: Mapping[str, Any], text: str) -> str:
    samples = {"date": "2026-01-31", "date-time": "2026-01-31T12:00:00Z", "time": "12:00:00", "email": "a@example.com"}
    samples |= {"uri": "https://example.com", "uuid": "00000000-0000-4000-8000-000000000000"}
    if schema.get("format") in samples:
        return samples[schema["format"]]
    long_enough = text.ljust(schema.get("minLength", 0), "x")
    return long_enough[: schema.get("maxLength")]


def _resolve(reference: str, root: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = root
    for part in reference.removeprefix("#/").split("/"):
        node = node[part.replace("~1", "/").replace("~0", "~")]
    return cast("Mapping[str, Any]", node)


def fill(example: Any, text: str) -> Any:
    """Replace `{canary}` in an author's example."""
    if isinstance(example, str):
        return example.replace("{canary}", text)
    if isinstance(example, Mapping):
        return {key: fill(value, text) for key, value in cast("Mapping[Any, Any]", example).items()}
    if isinstance(example, list | tuple):
        return [fill(value, text) for value in cast("list[Any]", example)]
    return example


def garbage(schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Make the arguments of a confused model: none, wrong types, unknown names, and texts that no schema forbids."""
    names: list[str] = list(schema.get("properties", {}))
    yield {}
    yield {"no_such_parameter": 1}
    yield {name: {"wrong": ["type"]} for name in names}
    yield {**least(schema, ""), "no_such_parameter": 1}
    for text in ("", "\x00\x1b[31m\u202e", "../../../../etc/passwd", "x" * 20_000):
        yield least(schema, text)
