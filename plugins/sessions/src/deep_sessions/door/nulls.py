"""Null for an optional argument is the same as leaving it out: many models always write all of them.

mastra-ai/mastra#12396: such a model's calls are refused until its run ends.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import ModelResponse, ToolCallPart

from .messages import with_parts

__all__ = ["without_null_arguments", "without_nulls"]

MOST_DEPTH = 20


def without_null_arguments(response: ModelResponse, schemas: Mapping[str, Mapping[str, Any]]) -> ModelResponse:
    """Return a response whose calls have no such null; the response itself if none has.

    Args:
        response: as it came.
        schemas: of the tools that were offered, by name.
    """
    parts = [_call(part, schemas) if isinstance(part, ToolCallPart) else part for part in response.parts]
    return with_parts(response, parts)


def _call(call: ToolCallPart[Any], schemas: Mapping[str, Mapping[str, Any]]) -> ToolCallPart[Any]:
    given: Any = call.args
    args = without_nulls(given, schemas.get(call.tool_name, {}))
    return call if args is given else replace(call, args=args)


def without_nulls(args: str | dict[str, Any] | None, schema: Mapping[str, Any]) -> str | dict[str, Any] | None:
    """Return arguments without each null that the schema refuses and does not require. The same object if none is.

    Args:
        args: of a call, as the model wrote them.
        schema: of the tool's parameters.
    """
    if not args or (isinstance(args, str) and "null" not in args):
        return args
    try:
        given: Any = json.loads(args) if isinstance(args, str) else args
    except (ValueError, RecursionError):
        return args
    made = _fitted(given, schema, schema, 0)
    if made is given:
        return args
    return json.dumps(made) if isinstance(args, str) else made


def _fitted(value: Any, schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    table = _resolved(schema, root)
    if depth > MOST_DEPTH or table is None:
        return value
    if isinstance(value, dict):
        return _object(cast("dict[str, Any]", value), table, root, depth)
    if isinstance(value, list):
        items = table.get("items")
        given = cast("list[Any]", value)
        made = [_fitted(item, items, root, depth + 1) for item in given]
        return made if any(new is not old for new, old in zip(made, given, strict=True)) else given
    return value


def _object(value: dict[str, Any], schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return value
    known = cast("Mapping[str, Any]", properties)
    required: Any = schema.get("required") or ()
    out: dict[str, Any] = {}
    for key, item in value.items():
        if key not in known:
            out[key] = item
        elif item is not None:
            out[key] = _fitted(item, known[key], root, depth + 1)
        elif key in required or _takes_null(known[key], root, depth):
            out[key] = None
    same = len(out) == len(value) and all(out[key] is value[key] for key in out)
    return value if same else out


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any] | None:
    for _ in range(MOST_DEPTH):
        if not isinstance(schema, Mapping):
            return None
        table = cast("Mapping[str, Any]", schema)
        if not isinstance(table.get("$ref"), str):
            options = [each for key in ("anyOf", "oneOf", "allOf") for each in _list(table.get(key))]
            named = [each for each in options if each != {"type": "null"}]
            if "properties" in table or "items" in table or len(named) != 1:
                return table
            schema = named[0]
            continue
        found: Any = root
        for step in table["$ref"].removeprefix("#/").split("/"):
            found = cast("Mapping[str, Any]", found).get(step) if isinstance(found, Mapping) else None
        schema = found
    return None


def _takes_null(schema: Any, root: Mapping[str, Any], depth: int) -> bool:
    """Whether null is valid; also where a schema says nothing that could forbid it."""
    if depth > MOST_DEPTH or schema is True or not isinstance(schema, Mapping):
        return schema is not False
    table = cast("Mapping[str, Any]", schema)
    if isinstance(table.get("$ref"), str):
        found: Any = root
        for step in table["$ref"].removeprefix("#/").split("/"):
            found = cast("Mapping[str, Any]", found).get(step) if isinstance(found, Mapping) else None
        return found is None or _takes_null(found, root, depth + 1)
    kind = table.get("type")
    if kind is not None and kind != "null" and not (isinstance(kind, list) and "null" in kind):
        return table.get("nullable") is True  # OpenAPI 3.0
    if ("enum" in table and None not in _list(table["enum"])) or ("const" in table and table["const"] is not None):
        return False
    for key in ("anyOf", "oneOf"):
        if (options := _list(table.get(key))) and not any(_takes_null(each, root, depth + 1) for each in options):
            return False
    return all(_takes_null(each, root, depth + 1) for each in _list(table.get("allOf")))


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
