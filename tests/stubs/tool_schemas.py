"""What the providers demand of the schema of a tool's arguments, with the reasons that they answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

# OpenAI's guide to structured outputs lists what its strict mode does not take.
_NOT_STRICT = ("oneOf", "allOf", "not", "if", "then", "else", "prefixItems", "patternProperties", "default")
_UNIONS = ("oneOf", "allOf", "anyOf")


def openai_problem(name: str, schema: object, *, strict: bool) -> str | None:
    """Why Chat Completions refuses a function's `parameters`, or None."""
    root = cast("Mapping[str, Any]", schema) if isinstance(schema, dict) else {}
    head = f"Invalid schema for function {name!r}: "
    if root.get("type") != "object":
        return f"{head}schema must be a JSON Schema of 'type: \"object\"', got 'type: \"{root.get('type')}\"'."
    for context, node in _nodes(root, ()):
        if problem := _dangling(root, node) or _array(node) or (_strict(node) if strict else None):
            return f"{head}In context={context}, {problem}"
    return None


def anthropic_problem(index: int, schema: object) -> str | None:
    """Why the Messages API refuses a tool's `input_schema`, or None."""
    where = f"tools.{index}.custom.input_schema"
    if not isinstance(schema, dict):
        return f"{where}: Input should be a valid dictionary"
    root = cast("Mapping[str, Any]", schema)
    if root.get("type") != "object":
        return f"{where}.type: " + ("Input should be 'object'" if "type" in root else "Field required")
    if any(union in root for union in _UNIONS):
        return f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level"
    for context, node in _nodes(root, ()):
        if problem := _dangling(root, node):
            return f"{where}: JSON schema is invalid, in {context}: {problem}"
    return None


def _nodes(node: Mapping[str, Any], context: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Every schema in a schema, with where it is."""
    yield context, node
    for key in ("properties", "$defs", "definitions", "patternProperties"):
        for name, inner in cast("dict[str, Any]", node.get(key) or {}).items():
            if isinstance(inner, dict):
                yield from _nodes(cast("Mapping[str, Any]", inner), (*context, key, name))
    for key in ("items", "additionalProperties", "not"):
        if isinstance(node.get(key), dict):
            yield from _nodes(node[key], (*context, key))
    for key in (*_UNIONS, "prefixItems"):
        for index, inner in enumerate(cast("list[Any]", node.get(key) or [])):
            if isinstance(inner, dict):
                yield from _nodes(cast("Mapping[str, Any]", inner), (*context, key, str(index)))


def _dangling(root: Mapping[str, Any], node: Mapping[str, Any]) -> str | None:
    reference = node.get("$ref")
    if reference is None or reference == "#":
        return None
    target: Any = root
    for key in str(reference).removeprefix("#/").split("/"):
        target = cast("Mapping[str, Any]", target).get(key) if isinstance(target, dict) else None
    return None if isinstance(target, dict) else f"reference to component {reference!r} which was not found."


def _array(node: Mapping[str, Any]) -> str | None:
    return "array schema missing items." if node.get("type") == "array" and "items" not in node else None


def _strict(node: Mapping[str, Any]) -> str | None:
    if "$ref" in node and len(node) > 1 and "$defs" not in node:
        return f"$ref cannot have keywords {set(node) - {'$ref'}}."
    if banned := [key for key in _NOT_STRICT if key in node]:
        return f"{banned[0]!r} is not permitted."
    if node.get("type") != "object":
        return None
    if node.get("additionalProperties") is not False:
        return "'additionalProperties' is required to be supplied and to be false."
    if missing := [key for key in node.get("properties", {}) if key not in node.get("required", [])]:
        return (
            "'required' is required to be supplied and to be an array including every key in properties. "
            f"Missing {missing[0]!r}."
        )
    return None
