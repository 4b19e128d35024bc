"""Calls and results as a format writes them: JSON text, text for a model, JSON data."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import to_json, to_jsonable_python

from ..calls import ToolCall, ToolResult

__all__ = ["arguments_json", "result_data", "result_text"]


def arguments_json(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text."""
    return json.dumps(dict(call.arguments), ensure_ascii=False)


def result_text(result: ToolResult) -> str:
    """Return what the model reads: the error, a string as it is, nothing for None, any other value as JSON."""
    value = result.result if result.error is None else result.error
    if value is None or isinstance(value, str):
        return value or ""
    try:
        return to_json(value, serialize_unknown=True, bytes_mode="base64").decode()
    except ValueError:  # it contains itself
        return str(value)


def result_data(result: ToolResult) -> Any:
    """Return the result as JSON data: the tool's value, or the error's text."""
    value = result.result if result.error is None else result.error
    try:
        return to_jsonable_python(value, serialize_unknown=True, bytes_mode="base64")
    except ValueError:  # it contains itself
        return str(value)
