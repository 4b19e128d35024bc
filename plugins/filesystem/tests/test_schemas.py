"""The schemas written down are those that Pydantic AI makes of the tools' signatures."""

from __future__ import annotations

import json
import re

import pytest
from deep_filesystem import FilesystemOptions
from deep_filesystem.operations import Operations
from deep_filesystem.schemas import SCHEMAS
from deep_filesystem.toolset import build_toolset
from pydantic_ai import Tool
from pydantic_core import SchemaValidator


def told(validator: SchemaValidator) -> list[str]:
    """All that a validator says of itself but addresses; the order of a mapping's lines is nobody's promise."""
    return sorted(re.sub(r"0x[0-9a-f]+", "", str(validator)).splitlines())


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_what_the_signature_says(name: str) -> None:
    toolset = build_toolset(FilesystemOptions())
    ours = toolset.tools[name].function_schema
    made = Tool(getattr(Operations(FilesystemOptions()), name)).function_schema
    assert json.dumps(ours.json_schema) == json.dumps(made.json_schema)
    assert told(ours.validator) == told(made.validator)
    assert ours.return_schema == made.return_schema
    assert (ours.takes_ctx, ours.is_async) == (made.takes_ctx, made.is_async)
    assert (ours.single_arg_name, ours.positional_fields, ours.var_positional_field) == (None, [], None)
    assert (made.single_arg_name, made.positional_fields, made.var_positional_field) == (None, [], None)


def test_every_tool_has_a_schema() -> None:
    assert list(build_toolset(FilesystemOptions()).tools) == list(SCHEMAS)


def test_defaults_are_what_the_signature_says() -> None:
    toolset = build_toolset(FilesystemOptions())
    for name, tool in toolset.tools.items():
        made = Tool(getattr(Operations(FilesystemOptions()), name)).function_schema.validator
        required = dict.fromkeys(SCHEMAS[name].get("required", ()), "x")
        ours = tool.function_schema.validator.validate_python(required)
        assert ours == made.validate_python(required)
        assert list(ours) == list(made.validate_python(required))
