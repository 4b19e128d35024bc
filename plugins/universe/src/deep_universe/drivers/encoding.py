"""Calls and results as a format writes them: JSON text, text for a model, JSON data."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json, to_json

from ..calls import ToolCall, ToolResult

__all__ = ["arguments_json", "result_data", "result_text"]


def arguments_json(call: ToolCall) -> str:
    """Return the arguments of a call as JSON text."""
    text = json.dumps(dict(call.arguments), ensure_ascii=False)
    # A model can write half of a surrogate pair, which only an escape can send back.
    return text if _sendable(text) == text else json.dumps(dict(call.arguments))


def result_text(result: ToolResult) -> str:
    """Return what the model reads: the error, a string as it is, nothing for None, any other value as JSON."""
    value = result.result if result.error is None else result.error
    if value is None or isinstance(value, str):
        return _sendable(value or "")
    try:
        return _json(value).decode()
    except ValueError:
        return _sendable(str(value))


def result_data(result: ToolResult) -> Any:
    """Return the result as JSON data: the tool's value, or the error's text."""
    value = result.result if result.error is None else result.error
    if isinstance(value, str):
        return _sendable(value)
    try:
        return from_json(_json(value))
    except ValueError:
        return _sendable(str(value))


def _json(value: object) -> bytes:
    """Return any value as JSON. Raises ValueError for text that is not Unicode, and for what contains itself."""
    return to_json(value, serialize_unknown=True, bytes_mode="base64")


def _sendable(text: str) -> str:
    """Replace what UTF-8 cannot carry: a file's name, for one, can be such text."""
    return text.encode("utf-8", "replace").decode()
