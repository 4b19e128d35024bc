"""Schemas of a document as JSON schema that stands alone, no larger than a request can bear."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, cast

from deep_core.plugin_api import visible

from .document import Place
from .problems import DocumentError

__all__ = ["SCHEMA_CHARS", "SchemaWriter", "clip"]

SCHEMA_CHARS = 8_000
"""Of one tool's parameters. Larger ones lose their descriptions first, then what lies deepest."""
MOST_NODES = 50_000
"""Parts of one operation's schemas: aliases of YAML can make a small file endless."""
TYPES = {"string", "number", "integer", "boolean", "array", "object", "null"}
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")


def clip(text: object, most: int) -> str:
    """Return a stranger's text with what is invisible shown, and cut."""
    if not isinstance(text, str):
        return ""
    lines = (visible(line.rstrip()) for line in text.replace("\t", " ").splitlines())
    seen = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
    return seen if len(seen) <= most else seen[: most - 1].rstrip() + "…"


class SchemaWriter:
    """Writes the schemas of one operation.

    Args:
        depth: schemas below it become any value.
        describe: keep descriptions.
    """

    def __init__(self, depth: int = 40, *, describe: bool = True) -> None:
        self.depth, self.describe = depth, describe
        self.defs: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._nodes = 0

    def write(self, place: Place, depth: int = 0) -> dict[str, Any]:
        """Return a schema as JSON schema; its references lead to `#/$defs/…`.

        Raises:
            DocumentError: a reference leads nowhere, or the schema is too large.
        """
        self._nodes += 1
        if self._nodes > MOST_NODES:
            raise DocumentError("its schemas are too large")
        given = place.value
        if given is False:
            return {"not": {}}
        if not isinstance(given, Mapping) or depth > self.depth:
            return {}
        schema = cast("Mapping[str, Any]", given)
        if isinstance(schema.get("$ref"), str):
            return self._reference(place, schema, depth)
        return self._plain(place, schema, depth)

    def _reference(self, place: Place, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        target = place.child(schema)
        key = id(target.value)  # a document lives longer than its writers
        if key not in self._names:
            wanted = re.sub(r"[^A-Za-z0-9_]+", "_", str(schema["$ref"]).rpartition("/")[2]).strip("_")[:60] or "Schema"
            name, number = wanted, 2
            while name in self.defs:
                name, number = f"{wanted}_{number}", number + 1
            self._names[key] = name
            self.defs[name] = {}  # a schema that contains itself refers to this
            self.defs[name] = self.write(target, depth + 1)
        out: dict[str, Any] = {"$ref": f"#/$defs/{self._names[key]}"}
        if self.describe and (about := clip(schema.get("description"), 300)):
            out["description"] = about
        return out

    def _plain(self, place: Place, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        out = _scalars(schema, describe=self.describe)
        for key in ("allOf", "anyOf", "oneOf"):
            if isinstance(parts := schema.get(key), list) and parts:
                out[key] = [self.write(place._replace(value=part), depth + 1) for part in cast("list[Any]", parts)]
        if isinstance(schema.get("not"), Mapping):
            out["not"] = self.write(place._replace(value=schema["not"]), depth + 1)
        self._properties(place, schema, depth, out)
        if isinstance(schema.get("items"), Mapping):
            out["items"] = self.write(place._replace(value=schema["items"]), depth + 1)
        elif out.get("type") == "array":
            out["items"] = {}
        return _nullable(out) if schema.get("nullable") is True else out

    def _properties(self, place: Place, schema: Mapping[str, Any], depth: int, out: dict[str, Any]) -> None:
        left_out: set[str] = set()
        if depth >= self.depth:
            return  # an object of any keys
        if isinstance(given := schema.get("properties"), Mapping):
            written: dict[str, Any] = {}
            for name, part in cast("Mapping[Any, Any]", given).items():
                # What only answers have is refused in a request.
                if isinstance(part, Mapping) and cast("Mapping[str, Any]", part).get("readOnly") is True:
                    left_out.add(str(name))
                else:
                    written[str(name)] = self.write(place._replace(value=part), depth + 1)
            out["properties"] = written
            out.setdefault("type", "object")
        if isinstance(required := schema.get("required"), list):
            names = [each for each in cast("list[Any]", required) if isinstance(each, str) and each not in left_out]
            out |= {"required": list(dict.fromkeys(names))} if names else {}
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            out["additionalProperties"] = self.write(place._replace(value=extra), depth + 1)
        elif extra is False and not schema.get("patternProperties"):
            out["additionalProperties"] = False


def _scalars(schema: Mapping[str, Any], *, describe: bool) -> dict[str, Any]:
    """The keywords without schemas inside, each only with a value that JSON schema allows."""
    out: dict[str, Any] = {}
    given = schema.get("type")
    types = [each for each in (cast("list[Any]", given) if isinstance(given, list) else [given]) if each in TYPES]
    if types:
        out["type"] = types[0] if len(types) == 1 else types
    if isinstance(values := schema.get("enum"), list) and values and _is_json(values):
        out["enum"] = values
    for key in ("const", "default"):
        if key in schema and _is_json(schema[key]):
            out[key] = schema[key]
    for key in _COUNTS:
        if isinstance(value := schema.get(key), int) and not isinstance(value, bool) and value >= 0:
            out[key] = value
    for key in _NUMBERS:
        if isinstance(value := schema.get(key), int | float) and not isinstance(value, bool):
            out[key] = value
    for key, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(key) is True and limit in out:  # as OpenAPI 3.0 says it
            out[key] = out.pop(limit)
    if schema.get("uniqueItems") is True:
        out["uniqueItems"] = True
    if isinstance(pattern := schema.get("pattern"), str) and len(pattern) <= 300:
        out["pattern"] = pattern
    form = schema.get("format")
    file = given == "file" or (given is None and isinstance(schema.get("contentMediaType"), str))  # of 2.0, and of 3.1
    if form == "binary" or (form is None and file):
        out |= {"type": "string", "contentEncoding": "base64"}
    elif isinstance(form, str):
        out["format"] = form[:40]
    if describe and (about := clip(schema.get("description") or schema.get("title"), 300)):
        out["description"] = about
    return out


def _is_json(value: Any) -> bool:
    try:
        return len(json.dumps(value, allow_nan=False)) <= 4_000
    except (TypeError, ValueError, RecursionError):
        return False


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("type"), str):
        schema["type"] = [schema["type"], "null"]
        if "enum" in schema and None not in schema["enum"]:
            schema["enum"] = [*schema["enum"], None]
        return schema
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema
