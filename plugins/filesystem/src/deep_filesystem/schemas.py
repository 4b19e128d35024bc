"""The tools' arguments: JSON schemas for the model, and their validators.

Pydantic AI would derive the same from the signatures in `operations.py`, in 1 to 3 ms a tool; a test compares them.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic_core import CoreConfig, CoreSchema, SchemaValidator, core_schema

__all__ = ["RESULTS", "SCHEMAS", "validator"]

TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
PATH = {"default": ".", **TEXT}
MAYBE = {"default": None, **TEXT}
OFFSET, OFF = {"default": 0, **NUMBER}, {"default": False, "type": "boolean"}


def _schema(*required: str, **properties: Mapping[str, Any]) -> dict[str, Any]:
    own = {name: {**about} for name, about in properties.items()}  # separate dicts, because others may adapt them
    schema: dict[str, Any] = {"additionalProperties": False, "properties": own}
    return {**schema, **({"required": [*required]} if required else {}), "type": "object"}


SCHEMAS = {
    "ls": _schema(path=PATH, offset=OFFSET),
    "read_file": _schema(
        "path",
        path=TEXT,
        offset=OFFSET,
        limit={"default": 2000, **NUMBER},
        byte=OFFSET,
        encoding={"default": "", **TEXT},
    ),
    "write_file": _schema("path", "content", path=TEXT, content=TEXT),
    "edit_file": _schema(
        *("path", "old_string", "new_string"),
        path=TEXT,
        old_string=TEXT,
        new_string=TEXT,
        replace_all=OFF,
    ),
    "glob": _schema("pattern", pattern=TEXT, path=PATH, offset=OFFSET, ignored=OFF),
    "grep": _schema(
        "pattern",
        pattern=TEXT,
        path=PATH,
        glob=MAYBE,
        output_mode={"default": "files_with_matches", "enum": ["files_with_matches", "content", "count"], **TEXT},
        ignored=OFF,
    ),
    "execute": _schema("command", command=TEXT, timeout={"default": 120, **NUMBER}, background=OFF),
    "read_output": _schema("id", id=TEXT, wait=OFFSET, until=MAYBE, tail={"default": None, **NUMBER}),
    "send_input": _schema("id", "input", id=TEXT, input=TEXT, wait={"default": 5, **NUMBER}, until=MAYBE),
    "stop_command": _schema("id", id=TEXT),
}
"""By tool."""
RESULTS: dict[str, dict[str, Any]] = {name: {} if name == "read_file" else {"type": "string"} for name in SCHEMAS}
"""The schema of each tool's result: text, but for a picture that was read."""

_TYPES = {"string": core_schema.str_schema, "integer": core_schema.int_schema, "boolean": core_schema.bool_schema}


@cache  # a validator has no state: all agents share it
def validator(tool: str) -> SchemaValidator:
    """Return the validator of a tool's arguments, with their defaults."""
    schema = SCHEMAS[tool]
    required = schema.get("required", ())
    fields = {
        name: core_schema.typed_dict_field(_with_checks(about), required=name in required)
        for name, about in schema["properties"].items()
    }
    made = core_schema.typed_dict_schema(fields, extra_behavior="forbid")
    return SchemaValidator(made, CoreConfig(title=tool))


def _with_checks(about: Mapping[str, Any]) -> CoreSchema:
    made: CoreSchema = core_schema.literal_schema(about["enum"]) if "enum" in about else _TYPES[about["type"]]()
    if "default" not in about:
        return made
    nullable = core_schema.nullable_schema(made) if about["default"] is None else made
    return core_schema.with_default_schema(nullable, default=about["default"])
