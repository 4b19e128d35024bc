"""The schema of a tool's arguments, as a provider accepts it."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import unquote

from ..errors import ToolSchemaError

if TYPE_CHECKING:
    from pydantic_ai.profiles import JsonSchemaTransformer
    from pydantic_ai.tools import ToolDefinition

__all__ = ["object_schema", "transformed"]


def transformed(tool: ToolDefinition, transformer: type[JsonSchemaTransformer]) -> dict[str, Any]:
    """Return the schema as a transformer of Pydantic AI makes it: strict only if the tool's author said so.

    Raises:
        ToolSchemaError: the provider cannot express the schema.
    """
    from pydantic_ai.exceptions import UserError

    try:
        # Not None: the transformer would guess, and guess otherwise in another version.
        schema = transformer(tool.parameters_json_schema, strict=tool.strict is True).walk()
    except UserError as error:
        raise ToolSchemaError(f"tool {tool.name!r}: {error}") from error
    return _rooted(schema)


def object_schema(tool: ToolDefinition) -> dict[str, Any]:
    """Return a copy of the schema whose root is an object, which every provider demands."""
    return _rooted(deepcopy(tool.parameters_json_schema))


def _rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """Replace a `$ref` at the root, which a recursive model has, by what it refers to."""
    reference = schema.pop("$ref", None)
    if isinstance(reference, str) and reference.startswith("#/"):
        target: Any = schema
        for key in reference[2:].split("/"):
            key = unquote(key).replace("~1", "/").replace("~0", "~")
            target = cast("dict[str, Any]", target).get(key, {})
        schema = {**deepcopy(target), **schema}
    if schema.get("type") != "object":
        schema = {"type": "object", **{key: value for key, value in schema.items() if key != "type"}}
    schema.setdefault("properties", {})
    return schema
