"""The arguments of `deep call`: parse `key=value` with the tool's schema."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from deep_core.plugin_api import suggest

from ..failure import USAGE, Failure

__all__ = ["parse_json", "parse_pairs"]

Schema = Mapping[str, Any]
EVERY = frozenset({"string", "integer", "number", "boolean", "null", "array", "object"})
EXAMPLES = {
    "integer": "3",
    "number": "2.5",
    "boolean": "true",
    "null": "null",
    "array": """'["a", "b"]'""",
    "object": """'{"a": 1}'""",
}
"""Examples of how to type a value of each type in a shell."""


def parse_pairs(tool: str, pairs: Sequence[str], schema: Schema) -> dict[str, Any]:
    """Parse `key=value` words as the tool's schema says: a number, true, JSON or a text. `key=@file` reads a file.

    The tool itself validates the values.

    Args:
        tool: the tool's name, for errors.
        pairs: the words typed.
        schema: the schema of the tool's arguments.

    Raises:
        Failure: a word is not `key=value`, the tool has no such argument, a type is wrong, or an argument is missing.
    """
    properties: Mapping[str, Schema] = schema.get("properties", {})
    others: Any = schema.get("additionalProperties", False)
    arguments: dict[str, Any] = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals or not key:
            raise Failure(f"{pair!r} is not KEY=VALUE. {_usage(tool, schema)}", USAGE)
        if key in arguments:
            raise Failure(f"{key!r} is given twice; type a list as JSON: {key}={EXAMPLES['array']}", USAGE)
        if key not in properties and others is False:
            raise Failure(f"{tool} has no argument {key!r}.{suggest(key, properties)} {_usage(tool, schema)}", USAGE)
        types = _types(properties.get(key, others), schema)
        arguments[key] = _value(key, _content(key, text[1:]) if text.startswith("@") else text, types)
    missing = [key for key in schema.get("required", ()) if key not in arguments]
    if missing:
        raise Failure(f"{tool} needs {', '.join(missing)}. {_usage(tool, schema)}", USAGE)
    return arguments


def parse_json(text: str) -> dict[str, Any]:
    """Parse all arguments from one JSON object, or from the file that `@file` names. The tool validates them.

    Raises:
        Failure: it is not a JSON object.
    """
    try:
        value: Any = json.loads(_content("--json", text[1:]) if text.startswith("@") else text)
    except ValueError as error:
        raise Failure(f"--json: not JSON: {error}", USAGE) from None
    if not isinstance(value, dict):
        raise Failure("""--json: not an object, as in --json '{"city": "Oslo"}'""", USAGE)
    return cast("dict[str, Any]", value)


def _usage(tool: str, schema: Schema) -> str:
    """The usage line: `Type: deep call forecast city=TEXT [days=INTEGER]`."""
    required = schema.get("required", ())
    words: list[str] = []
    for key, each in cast("Mapping[str, Schema]", schema.get("properties", {})).items():
        types = sorted(_types(each, schema) - {"null"})
        kind = "VALUE" if len(types) != 1 else "TEXT" if types == ["string"] else types[0].upper()
        words.append(f"{key}={kind}" if key in required else f"[{key}={kind}]")
    return " ".join(["Type: deep call", tool, *words])


def _content(key: str, name: str) -> str:
    try:
        return Path(name).expanduser().read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Failure(f"{key}=@{name}: not UTF-8 text", USAGE) from None
    except OSError as error:
        raise Failure(
            f"{key}=@{name}: {error.strerror or error}; put a value that begins with @ into --json", USAGE
        ) from None


def _value(key: str, text: str, types: frozenset[str]) -> Any:
    try:
        value: Any = json.loads(text, parse_constant=_not_json)
    except ValueError:
        value = text
    value_types = _types_of(value)
    if value_types & types and "string" not in value_types:
        return value
    if "string" in types:
        return text
    type_names = sorted(types)
    way = ", ".join(f"{key}={EXAMPLES[kind]}" for kind in type_names)
    raise Failure(f"{key}={text!r} is not of type {' or '.join(type_names)}; type it as {way}", USAGE)


def _not_json(constant: str) -> Any:
    raise ValueError(constant)  # NaN and Infinity: Python accepts them, JSON does not


def _types_of(value: Any) -> frozenset[str]:
    if isinstance(value, bool):
        return frozenset({"boolean"})
    if isinstance(value, int):
        return frozenset({"integer", "number"})
    names = {float: "number", str: "string", list: "array", dict: "object", type(None): "null"}
    return frozenset({names[cast("type[Any]", type(value))]})


def _types(schema: Any, root: Schema) -> frozenset[str]:
    """The JSON types that a schema allows; all types if it does not say."""
    if not isinstance(schema, Mapping):
        return EVERY  # `true` allows anything
    schema = cast("Schema", schema)
    if "$ref" in schema:
        node: Any = root
        for name in str(schema["$ref"]).removeprefix("#/").split("/"):
            node = node[name]
        return _types(node, root)
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return frozenset(kind for each in schema[several] for kind in _types(each, root))
    if "type" in schema:
        return frozenset([schema["type"]] if isinstance(schema["type"], str) else schema["type"])
    values: Any = schema.get("enum", [schema["const"]] if "const" in schema else None)
    return EVERY if values is None else frozenset(kind for value in values for kind in _types_of(value))
