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
_FILES = ("image/", "audio/", "video/", "application/octet-stream", "application/pdf", "application/zip")
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
        for key in ("allOf", "anyOf", "oneOf", "prefixItems"):
            if isinstance(parts := schema.get(key), list) and parts:
                out[key] = [self.write(place._replace(value=part), depth + 1) for part in cast("list[Any]", parts)]
        self._name_alternatives(place, schema, out)
        if isinstance(schema.get("not"), Mapping):
            out["not"] = self.write(place._replace(value=schema["not"]), depth + 1)
        self._properties(place, schema, depth, out)
        if isinstance(schema.get("items"), Mapping):
            out["items"] = self.write(place._replace(value=schema["items"]), depth + 1)
        elif out.get("type") == "array":
            out["items"] = {}
            if schema.get("items") is False:
                out["maxItems"] = len(out.get("prefixItems", ()))
        return _nullable(out) if schema.get("nullable") is True else out

    def _name_alternatives(self, place: Place, schema: Mapping[str, Any], out: dict[str, Any]) -> None:
        """Write which value of a discriminator each alternative has, unless the alternative says so."""
        name, values = _discriminator(schema)
        for key in ("anyOf", "oneOf") if name else ():
            for part, written in zip(schema.get(key, ()), out.get(key, ()), strict=False):
                if "$ref" in written and not _lists_values(place.child(part), name):
                    own = str(part["$ref"]).rpartition("/")[2]
                    named = [value for value, target in values.items() if target == own]
                    written["properties"] = {name: {"enum": named or [own]}}

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
            name, values = _discriminator(schema)
            if values and self.describe and isinstance(about := written.get(name), dict) and "enum" not in about:
                about.setdefault("description", clip(f"One of: {', '.join(values)}", 300))
        if isinstance(required := schema.get("required"), list):
            names = [each for each in cast("list[Any]", required) if isinstance(each, str) and each not in left_out]
            out |= {"required": list(dict.fromkeys(names))} if names else {}
        extra = schema.get("additionalProperties")
        if isinstance(extra, Mapping):
            out["additionalProperties"] = self.write(place._replace(value=extra), depth + 1)
        elif extra is False and not schema.get("patternProperties"):
            out["additionalProperties"] = False


def _lists_values(place: Place, name: str, depth: int = 0) -> bool:
    """Whether a schema, or one that it is made from, says which values a property has."""
    schema: Any = place.value if isinstance(place.value, Mapping) and depth < 10 else {}
    given: Any = schema.get("properties")
    part = place.child(cast("Mapping[str, Any]", given).get(name)).value if isinstance(given, Mapping) else None
    if isinstance(part, Mapping) and ("enum" in part or "const" in part):
        return True
    parts: Any = schema.get("allOf")
    return isinstance(parts, list) and any(_lists_values(place.child(each), name, depth + 1) for each in parts)


def _discriminator(schema: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    """The name of its property, and the schema's name of each value; an empty name without one."""
    given: Any = schema.get("discriminator")
    about = cast("Mapping[str, Any]", given) if isinstance(given, Mapping) else {}
    name, mapping = about.get("propertyName"), about.get("mapping")
    values = cast("Mapping[Any, Any]", mapping) if isinstance(mapping, Mapping) else {}
    named = {str(value): str(target).rpartition("/")[2] for value, target in values.items()}
    return (name, named) if isinstance(name, str) else ("", {})


def _scalars(schema: Mapping[str, Any], *, describe: bool) -> dict[str, Any]:
    """The keywords without schemas inside, each only with a value that JSON schema allows."""
    out: dict[str, Any] = {}
    given = schema.get("type")
    types = [each for each in (cast("list[Any]", given) if isinstance(given, list) else [given]) if each in TYPES]
    if types:
        out["type"] = types[0] if len(types) == 1 else types
    if isinstance(values := schema.get("enum"), list) and values and _is_json(values):
        out["enum"] = values
    elif describe and isinstance(values, list) and len(cast("list[Any]", values)) > 3 and _is_json(values[:3]):
        few = ", ".join(json.dumps(each, ensure_ascii=False) for each in cast("list[Any]", values[:3]))
        out["description"] = f"One of {len(cast('list[Any]', values)):,} values, such as {clip(few, 200)}."
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
    if form == "binary" or (form is None and _is_file(schema)):
        out |= {"type": "string", "contentEncoding": "base64"}
    elif isinstance(form, str):
        out["format"] = form[:40]
    elif schema.get("contentEncoding") in ("base64", "base64url"):
        out["format"] = "byte"  # 3.0's word; `contentEncoding` is ours, of what is decoded before it is sent
    if describe and (about := clip(schema.get("description") or schema.get("title"), 300)):
        out["description"] = f"{about} {out['description']}" if "description" in out else about
    return out


def _is_file(schema: Mapping[str, Any]) -> bool:
    """Whether a string is bytes, without the format `binary` of 3.0."""
    media, kind = schema.get("contentMediaType"), schema.get("type")
    if not isinstance(media, str) or "contentEncoding" in schema:
        return kind == "file"  # of 2.0
    return kind is None or (kind == "string" and media.lower().startswith(_FILES))


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
