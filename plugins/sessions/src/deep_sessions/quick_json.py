"""Messages as JSON that `ModelMessagesTypeAdapter` reads, without the calls of Python that it makes for every part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, cast

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.usage import RequestUsage
from pydantic_core import PydanticSerializationError, to_json

__all__ = ["write_quickly"]

_PLAIN = frozenset({str, int, float, bool, datetime})
"""Both writers write values of these types the same."""
_NUMBERS = frozenset({int, float})
_FREE = {"args", "metadata", "provider_details"}
"""What may hold an object of any kind, which both write the same."""
_NAMES: Mapping[type, frozenset[str]] = {
    cls: frozenset(field.name for field in fields(cls))
    for cls in (
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        UserPromptPart,
        TextPart,
        ThinkingPart,
        ToolCallPart,
        ToolReturnPart,
    )
}
"""The classes that are written, without their subclasses -> the fields."""


def write_quickly(message: ModelMessage) -> bytes | None:
    """Return a message as JSON, without what is None and counts of 0; None for a message that the adapter must write.

    Such a message has a part or a value of another kind: a file, a result that is no text.
    """
    plain = _plain(message)
    try:
        return None if plain is None else to_json(plain, exclude_none=True, bytes_mode="base64", inf_nan_mode="null")
    except PydanticSerializationError:
        return None


def _plain(value: object) -> dict[str, Any] | None:
    names = _NAMES.get(type(value))
    if names is None:
        return None
    out: dict[str, Any] = {}
    for name, inner in vars(value).items():
        if inner is None:
            continue
        if name not in names:
            return None
        if type(inner) in _PLAIN or (name in _FREE and type(inner) is dict):
            out[name] = inner
        elif (found := _nested(name, inner)) is not None:
            out[name] = found
        else:
            return None
    return out


def _nested(name: str, value: Any) -> object:
    if name == "parts":
        return _parts(value)
    if name == "usage" and type(value) is RequestUsage:
        counts = {key: count for key, count in vars(value).items() if count}
        details = counts.get("details", {})
        numbers = all(type(count) in _NUMBERS for key, count in counts.items() if key != "details")
        return counts if numbers and all(type(count) in _NUMBERS for count in details.values()) else None
    if name == "workspace_ref":
        ref = cast("dict[str, Any]", vars(value))
        return ref if all(type(inner) is str for inner in ref.values()) else None
    return None


def _parts(parts: Sequence[Any]) -> list[dict[str, Any]] | None:
    found = [plain for part in parts if (plain := _plain(part)) is not None]
    return found if len(found) == len(parts) else None
