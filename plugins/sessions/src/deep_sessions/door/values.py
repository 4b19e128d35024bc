"""The result of a tool, made such that it can be stored and sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.messages import BinaryContent, FileUrl, TextContent, ToolReturn
from pydantic_core import to_json, to_jsonable_python

from .media import clean_file, clean_url
from .text import MOST_CHARS, clean

__all__ = ["clean_item", "clean_result", "clean_value", "shorten"]


def clean_result(tool: str, result: Any) -> Any:
    """Return the result of a tool as it can be stored and sent, each part by itself. The same object if it can be.

    Raises:
        ToolFailed: it has no JSON: it contains itself, or an object of a type that has none. The model reads that the
            tool ran, and the session goes on.
    """
    if result is None or isinstance(result, int) or (type(result) is float and math.isfinite(result)):
        return result
    try:
        if not isinstance(result, ToolReturn):
            return _with_json(result)
        returned = cast("ToolReturn[Any]", result)
        _with_json(returned.metadata, fallback=str)  # kept as it is, but it must be possible to store it
        value, content = _with_json(returned.return_value), _clean_content(returned.content)
        if value is returned.return_value and content is returned.content:
            return returned
        return replace(returned, return_value=value, content=content)
    except (ValueError, TypeError, RecursionError) as error:
        why = str(error).strip().splitlines() or [type(error).__name__]
        raise ToolFailed(
            f"The tool {tool} ran, but its result cannot be written as JSON: {clean(why[-1])}. Do not call it again "
            "for that."
        ) from error


def _with_json(value: Any, fallback: Callable[[Any], Any] | None = None) -> Any:
    value = clean_value(value)
    if isinstance(value, str):
        return value
    try:
        to_json(value, bytes_mode="base64", fallback=fallback)
        return value
    except ValueError as error:
        if "surrogates" not in str(error):  # of a text inside an object, which pydantic wraps
            raise
        return clean_value(to_jsonable_python(value, bytes_mode="base64", fallback=fallback))


def clean_value(value: Any) -> Any:
    """Return a value whose texts, numbers and files can be sent. The same object if they can be.

    Raises:
        RecursionError: it contains itself.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, float):
        # Not JSON; half of the SDKs would write it nevertheless, and the provider refuses the body.
        return value if math.isfinite(value) else str(value)
    if isinstance(value, BinaryContent | FileUrl | TextContent):
        return clean_item(value)
    if isinstance(value, Mapping):
        return _clean_table(cast("Mapping[Any, Any]", value))
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        made = [clean_value(item) for item in items]
        same = all(new is old for new, old in zip(made, items, strict=True))
        return items if same else made
    return value


def _clean_table(table: Mapping[Any, Any]) -> Any:
    made = {clean_value(key): clean_value(item) for key, item in table.items()}
    pairs = zip(made.items(), table.items(), strict=False)
    same = len(made) == len(table) and all(k is key and new is old for (k, new), (key, old) in pairs)
    return table if same else made


def clean_item(item: Any) -> Any:
    """Return one item of a message's content as it can be sent: the same object, or another, or words."""
    if isinstance(item, str):
        return clean(item)
    if isinstance(item, BinaryContent):
        return clean_file(item)
    if isinstance(item, FileUrl):
        return clean_url(item)
    if isinstance(item, TextContent):
        text = clean(item.content)
        return item if text is item.content else replace(item, content=text)
    return item


def _clean_content(content: Any) -> Any:
    if content is None or isinstance(content, str):
        return None if content is None else clean(content)
    made = [clean_item(item) for item in content]
    return content if all(new is old for new, old in zip(made, content, strict=True)) else made


def shorten(given: Any) -> Any:
    """Return a result of at most `MOST_CHARS` characters: the same object, or the begin and end of its text."""
    value = given
    if isinstance(value, str):
        text = value
    elif isinstance(value, list | Mapping) and not _has_file(given):
        text = to_json(value, bytes_mode="base64", fallback=str).decode()
    else:
        return given
    if len(text) <= MOST_CHARS:
        return given
    half = MOST_CHARS // 2
    return f"{text[:half]}\n[{len(text) - 2 * half:,} characters are left out]\n{text[-half:]}"


def _has_file(value: Any) -> bool:
    if isinstance(value, Mapping):
        value = [*cast("Mapping[Any, Any]", value).values()]
    if isinstance(value, list):
        return any(map(_has_file, cast("list[Any]", value)))
    return isinstance(value, BinaryContent | FileUrl)
