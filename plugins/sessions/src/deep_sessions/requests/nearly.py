"""What answers of servers that are nearly a provider's have in common: fields of other types, and errors."""

from __future__ import annotations

import json
import logging
import re
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, cast

from deep_core.plugin_api import visible

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "FINISHED",
    "Body",
    "LeftOut",
    "StreamRepair",
    "Wire",
    "arguments_of",
    "count",
    "counted",
    "dump",
    "error_of",
    "id_of",
    "list_of_objects",
    "listed",
    "new_id",
    "object_of",
    "text_of",
    "without_misfits",
]

Body = dict[str, Any]
LOGGER = logging.getLogger("deep.sessions")
LEFT_OUT = "the server's answer has %s, which cannot be read: it is left out"
WIDTH = 80
"""Most characters of a server's word, in a log."""
FINISHED: Final[Mapping[str, str]] = {
    **dict.fromkeys(("stop", "eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed", "done"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_length", "length_limit"), "length"),
    **dict.fromkeys(("tool_calls", "tool_call", "tool_use", "function_call"), "tool_calls"),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "refusal", "sensitive"), "content_filter"),
}
"""Finish reasons that servers send -> Chat Completions'."""
MOST: Final = 1e14
"""No answer has as many tokens, no time as many milliseconds."""
ENDED: Final[Mapping[str, object]] = {"message": "the server ended its answer with an error", "code": 500}
BUSY: Final = ("overloaded", "at capacity", "over capacity", "loading model", "try again later")
STATUSES: Final[Mapping[str, int]] = {
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
"""The status of an error that says its kind and no number."""


class StreamRepair(Protocol):
    """Repairs one stream."""

    def events(self, body: Body, name: str) -> list[Body] | None:
        """Return what stands for an event; None if it is right.

        Args:
            body: its JSON.
            name: what the line before it calls it; "" without one.
        """
        ...

    def last(self) -> list[Body]:
        """Return what is missing at the end of the stream. Called once."""
        ...


class Wire(NamedTuple):
    """A provider's protocol, and the repair of its answers.

    Attributes:
        path: how the path of a request ends.
        holds: the field of an answer that holds what the model said.
        names: whether a line says the type of an event before it.
        whole: makes a whole answer right. Takes its JSON and the model that was asked.
        stream: makes what repairs a stream.
        pieces: makes a stream of a whole answer.
        error: makes the provider's body for an error.
        event: makes the provider's event for one.
    """

    path: str
    holds: str
    names: bool
    whole: Callable[[Body, str], Body]
    stream: Callable[[str], StreamRepair]
    pieces: Callable[[Body, str], list[Body]]
    error: Callable[[int, Body], Body]
    event: Callable[[int, Body], Body]


class LeftOut:
    """Says what is left out of one answer, each kind once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def say(self, what: str, kind: object = "") -> None:
        """Say it.

        Args:
            what: the words for it.
            kind: what the server calls it.
        """
        called = "" if kind == "" else f" {json.dumps(visible(str(kind)[:WIDTH]), ensure_ascii=False)}"
        if (words := what + called) not in self._said:
            self._said.add(words)
            LOGGER.warning(LEFT_OUT, words)


def error_of(body: object, holds: str = "choices") -> tuple[int, Body] | None:
    """Return the status that an error with status 200 stands for, and its fields with a message; None for none.

    Args:
        body: an answer, or an event of a stream.
        holds: the field that an answer, or an event, has and an error has not.
    """
    if not isinstance(body, dict):
        return None
    said = cast("Body", body)
    error: Any = said.get("error")
    if not error and "error" in (said.get("object"), said.get("type")):  # vLLM's older form, and that of Responses
        kind = said.get("type")
        error = {"message": said.get("message"), "code": said.get("code"), "type": None if kind == "error" else kind}
    if not error:
        errors = [each["error"] for each in list_of_objects(said.get("choices")) if each.get("error")]
        error = errors[0] if errors else ENDED if _ends_in_one(said) else None
    if not error and holds not in said and (said.get("detail") or said.get("message")):
        error = said.get("detail") or said.get("message")
    if not error:
        return None
    inner: Body = cast("Body", error) if isinstance(error, dict) else {"message": error}
    message = cast("object", inner.get("message") or error)
    text = message if isinstance(message, str) else dump(message)
    code = inner.get("code", inner.get("status", said.get("status")))
    is_status = re.fullmatch("[45][0-9][0-9]", str(code)) is not None
    status = int(str(code)) if is_status else STATUSES.get(str(inner.get("type")), STATUSES.get(str(code), 400))
    if status == 400 and any(word in text.lower() for word in BUSY):
        status = 503
    return status, {**inner, "message": text}


def _ends_in_one(said: Body) -> bool:
    """Whether an answer, or a piece of one, says that it ended with an error, and no more."""
    reasons = [each.get("finish_reason") for each in list_of_objects(said.get("choices"))]
    reasons += [said.get("stop_reason"), object_of(said.get("delta")).get("stop_reason")]
    return "error" in reasons or (said.get("object") == "response" and said.get("status") == "failed")


def without_misfits(body: Body, kind: type[BaseModel], *kept: str) -> Body:
    """Return a body without what the SDK's type refuses in fields that are seldom read: it would end the run.

    Args:
        body: it.
        kind: the type.
        kept: fields that Pydantic AI reads whatever is in them.
    """
    from pydantic import ValidationError

    try:
        kind.model_validate(body)
    except ValidationError as error:
        body = {**body}
        for each in error.errors():
            if each["type"] == "missing":  # the SDK makes it null
                continue
            first, *rest = map(str, each["loc"])
            inner = body.get(first)
            if first in ("usage", "delta") and rest and isinstance(inner, dict):
                if rest[0] not in kept:
                    body[first] = {**cast("Body", inner), rest[0]: None}
            elif first not in kept:
                body[first] = None
    return body


def arguments_of(value: object) -> str:
    """Return a call's arguments as JSON; "" for none."""
    return value if isinstance(value, str) else "" if value is None else dump(value)


def text_of(value: object) -> str:
    """Return what should be a text as one; "" for none."""
    return value if isinstance(value, str) else "" if value is None else dump(value)


def count(value: object) -> int:
    """Return a number of tokens, or a time; 0 for what is none."""
    return int(value) if isinstance(value, int | float) and 0 < value < MOST else 0


def counted(usage: Body, *keys: str) -> Body:
    """Return the tokens of a usage, and their total: what the server says of it, else the sum."""
    tokens = {key: count(usage.get(key)) for key in keys}
    return {**tokens, "total_tokens": count(usage.get("total_tokens")) or sum(tokens.values())}


def id_of(value: object) -> str:
    """Return an id as a text; "" for none."""
    return value if isinstance(value, str) else str(value) if isinstance(value, int) and value is not True else ""


def new_id(prefix: str) -> str:
    """Return a new id."""
    return f"{prefix}_{uuid.uuid4().hex[:24]}"


def dump(value: object) -> str:
    """Return a value as JSON."""
    return json.dumps(value, ensure_ascii=False, default=str)


def object_of(value: object) -> Body:
    """Return a copy of an object; an empty one for what is none."""
    return {**cast("Body", value)} if isinstance(value, dict) else {}


def list_of_objects(value: object) -> list[Body]:
    """Return the objects of a list."""
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [cast("Body", item) for item in items if isinstance(item, dict)]


def listed(value: object) -> list[object]:
    """Return what should be a list as one: a single thing alone, nothing for null."""
    return cast("list[object]", value) if isinstance(value, list) else [] if value is None else [value]
