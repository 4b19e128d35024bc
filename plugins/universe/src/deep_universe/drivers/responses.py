"""Responses as plain data: dicts, lists, text, SDK objects and Pydantic AI's own."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard, cast

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

__all__ = ["Fields", "ResponseData", "as_data", "as_fields", "as_items", "is_model_response", "objects"]

Fields: TypeAlias = Mapping[str, Any]
"""One object of a response: its fields, not validated."""
ResponseData: TypeAlias = "Fields | Sequence[Any] | str | ModelResponse | None"

# Google's and MCP's objects have Python's names inside; the names of the wire are their aliases.
_DUMPS: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("model_dump", {"mode": "json", "by_alias": True, "warnings": False}),
    ("model_dump", {}),
    ("to_dict", {}),
)


def as_data(response: object) -> ResponseData:
    """Return a response as a dict, list or string; a `ModelResponse` as it is; None for anything else. Never raises."""
    try:
        if isinstance(response, str) or is_model_response(response):
            return response
        fields = as_fields(response)
        return as_items(response) if fields is None else fields
    except Exception:  # noqa: BLE001 - an object whose class or methods raise is no response
        return None


def is_model_response(response: object) -> TypeGuard[ModelResponse]:
    """Return whether it is a Pydantic AI `ModelResponse`; does not import Pydantic AI."""
    messages = sys.modules.get("pydantic_ai.messages")
    return messages is not None and isinstance(response, messages.ModelResponse)


def as_fields(value: object) -> Fields | None:
    """Return a dict, or an SDK's object as one; None for anything else."""
    if isinstance(value, Mapping):
        return cast("Fields", value)
    if isinstance(value, type):
        return None
    for name, options in _DUMPS:
        # Of the type: an object that invents attributes (a mock, a proxy) is no SDK's.
        dump = getattr(type(value), name, None)
        if not callable(dump):
            continue
        try:
            data = dump(value, **options)
        except Exception:  # noqa: BLE001, S112 - the next way may work
            continue
        if isinstance(data, Mapping):
            return cast("Fields", data)
    return None


def as_items(value: object) -> Sequence[Any] | None:
    """Return a list or tuple; None for anything else."""
    return cast("Sequence[Any]", value) if isinstance(value, list | tuple) else None


def objects(value: object) -> list[Fields]:
    """Return the objects of a list, without what is none; an empty list for any other value."""
    return [fields for item in as_items(value) or () if (fields := as_fields(item)) is not None]
