"""Messages, part by part: one bad part costs itself, and a stored conversation that has one is repaired."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from json import dumps
from typing import Any, TypeVar, cast

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_core import to_json

from .media import clean_file
from .text import clean, clean_name
from .values import clean_item, clean_value, shorten

__all__ = ["clean_message", "clean_response", "with_parts"]

T = TypeVar("T")
_PARSED = ("\\u0000", "NaN", "Infinity")
"""What arguments in JSON may hold that their values, which some adapters send, must not."""


def clean_message(message: ModelMessage, known: frozenset[str] = frozenset()) -> ModelMessage:
    """Return a message of a conversation as every provider takes it. The same object if it is so.

    Args:
        message: a request, or a response whose calls were answered.
        known: the tools that are offered: their names stay, whatever they are.
    """
    if isinstance(message, ModelRequest):
        parts = [_request_part(part, known) for part in message.parts]
        return _with(message, {} if _same(parts, message.parts) else {"parts": parts})
    return _response(message, known, args=True)


def clean_response(response: ModelResponse, known: frozenset[str]) -> ModelResponse:
    """Return a response that just came. Arguments of its calls keep their values: the tools read those."""
    return _response(response, known, args=False)


def with_parts(
    response: ModelResponse, parts: Sequence[Any], changes: Mapping[str, Any] | None = None
) -> ModelResponse:
    """Return a response with other parts and fields; the response itself if they are the same objects."""
    if not changes and _same(parts, response.parts):
        return response
    copy = object.__new__(type(response))  # not `replace`: a response keeps what has no parameter
    vars(copy).update(vars(response), parts=[*parts], **(changes or {}))
    return copy


def _same(made: Iterable[Any], given: Sequence[Any]) -> bool:
    return all(new is old for new, old in zip(made, given, strict=True))


def _response(response: ModelResponse, known: frozenset[str], *, args: bool) -> ModelResponse:
    return with_parts(response, [_response_part(part, known, args=args) for part in response.parts], _changes(response))


def _request_part(given: Any, known: frozenset[str]) -> Any:
    part, changes = given, dict[str, Any]()
    if isinstance(part, UserPromptPart) and not isinstance(part.content, str):
        made = [clean_item(item) for item in part.content]
        if not _same(made, part.content):
            changes["content"] = made
    elif isinstance(part, BaseToolReturnPart):
        returned = cast("BaseToolReturnPart[Any]", part)
        _tool_name(returned, known, changes)
        value = _sendable(returned.content)
        if value is not returned.content:
            changes["content"] = value
    elif isinstance(content := getattr(part, "content", None), list):  # the errors of a call
        value = clean_value(content)
        if value is not content:
            changes["content"] = value
    return _with(given, changes)


def _sendable(content: Any, depth: int = 0) -> Any:
    """A stored result may be older than the check of results: one that has no JSON becomes its text."""
    try:
        value = shorten(clean_value(content))
        if not isinstance(value, str):
            to_json(value, bytes_mode="base64")
    except (ValueError, TypeError, RecursionError):
        # Part by part; a list in a list that holds itself has no parts.
        if isinstance(content, list) and depth < 1:
            return [_sendable(item, depth + 1) for item in cast("list[Any]", content)]
        return clean(_text(content))
    return value


def _text(content: Any) -> str:
    try:
        return str(content)
    except RecursionError:
        return f"[a {type(content).__name__} that contains itself]"


def _response_part(given: Any, known: frozenset[str], *, args: bool) -> Any:
    part, changes = given, dict[str, Any]()
    if isinstance(part, FilePart):
        file = clean_file(part.content)
        if isinstance(file, str):
            return TextPart(file)
        if file is not part.content:
            changes["content"] = file
    elif isinstance(part, BaseToolCallPart):
        call = cast("BaseToolCallPart[Any]", part)
        _tool_name(call, known, changes)
        if (made := (_args if args else _readable)(call.args)) is not call.args:
            changes["args"] = made
    elif isinstance(part, BaseToolReturnPart):  # of a tool that the provider runs
        value = _sendable(cast("BaseToolReturnPart[Any]", part).content)
        if value is not cast("BaseToolReturnPart[Any]", part).content:
            changes["content"] = value
    return _with(given, changes, skip=() if args else ("args",))


def _tool_name(part: Any, known: frozenset[str], changes: dict[str, Any]) -> None:
    name = clean_name(part.tool_name, known)
    if name != part.tool_name:
        changes["tool_name"] = name


def _args(args: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    if isinstance(args, str):
        text = clean(args)
        if any(mark in text for mark in _PARSED):
            from pydantic_core import from_json

            try:
                return to_json(clean_value(from_json(text))).decode()
            except ValueError:  # broken; adapters send it as a text
                return text
        return text
    try:
        return None if args is None else cast("dict[str, Any]", clean_value(args))
    except RecursionError:
        return {}


def _readable(args: str | dict[str, Any] | None) -> str | dict[str, Any] | None:
    """Return a table of arguments that has no JSON as an escaped text: validation refuses half of a pair in it.

    So it does where a provider gives arguments as a text. In a table, the half would reach whoever asks about the call.
    """
    if not isinstance(args, dict):
        return args
    try:
        to_json(args)
    except ValueError:
        return dumps(args, default=repr)
    return args


def _with(part: T, changes: dict[str, Any], skip: Sequence[str] = ()) -> T:
    """Return a part with changes, and its own texts clean."""
    changes = {**_changes(part, (*skip, *changes)), **changes}
    return replace(cast("Any", part), **changes) if changes else part


def _changes(part: Any, skip: Sequence[str] = ()) -> dict[str, Any]:
    """Return what is to be changed of a dataclass's texts: ids, signatures, names, whatever later versions add."""
    changes: dict[str, Any] = {}
    for field in fields(part):
        if not field.init or field.name in skip:
            continue
        value = made = getattr(part, field.name)
        if isinstance(value, str):
            made = clean(value)
        elif field.name in ("provider_details", "metadata") and isinstance(value, Mapping):
            made = _details(value)
        if made is not value:
            changes[field.name] = made
    return changes


def _details(value: Any) -> Any:
    try:
        return clean_value(value)
    except RecursionError:
        return None
