"""Find what a redactor leaves: put the same secret in every place of a conversation, and see where it remains."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, NamedTuple, cast

from pydantic import BaseModel
from pydantic_ai.messages import (
    BinaryContent,
    DocumentUrl,
    FilePart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryFeedbackPart,
    RetryInfo,
    SystemPromptPart,
    TextContent,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)

from deep_core import Processor
from deep_core.plugin_api import suggest

from .bench import PROMPT, Bench, one_line
from .problem import Problem

__all__ = ["KINDS", "Conversation", "Redaction", "examine"]

KINDS = (
    "system-prompt",
    "user-prompt",
    "file",
    "tool-call",
    "tool-return",
    "retry-feedback",
    "text",
    "thinking",
)
"""The kinds of part for `unredacted`, named as in Pydantic AI; a file may also be in a user's prompt."""
SECRETS = (
    "bob@example.org",
    "+44 20 7946 0958",
    "4111 1111 1111 1111",
    "078-05-1120",
    "192.0.2.17",
    "AKIAIOSFODNN7EXAMPLE",
    "sk-example-0123456789abcdefghijklmnopqrstuv",
)
"""Default secrets: an address, a telephone, card and insurance number, an IP address, two keys."""
NOT_SENT = frozenset({"metadata", "timestamp", "provider_details"})


class Place(NamedTuple):
    """The place of a secret: the kind of part, and its form."""

    kind: str
    form: str


@dataclass
class Redaction:
    """The findings about a plugin's redactors.

    Attributes:
        mistakes: errors of the redactors, or of the suite's settings.
        gaps: places that they skip without a setting that says so.
    """

    mistakes: list[Problem] = field(default_factory=list[Problem])
    gaps: list[Problem] = field(default_factory=list[Problem])


def examine(bench: Bench) -> Redaction:
    """Send a conversation full of secrets through the plugin's redactors."""
    findings = Redaction()
    bench.require_success(bench.first)
    names = [
        processor.name
        for processor in bench.contributions("deep_history_processors")
        if isinstance(processor, Processor) and processor.phase == "redact"
    ]
    if not names:
        return findings
    where = f"processor {', '.join(names)}"
    for kind in bench.suite.unredacted:
        if kind not in KINDS:
            what = f"names {kind!r}, which is not a kind of part.{suggest(kind, KINDS)}"
            findings.mistakes.append(Problem("unredacted", what, f"name some of: {', '.join(KINDS)}"))
    hiding = 0
    for secret in bench.suite.secrets or SECRETS:
        conversation = Conversation(secret)
        run = asyncio.run(bench.run_async(bench.agent, history=conversation.messages))
        if run.error is not None:
            what = f"fails a run that has every kind of part in its history: {one_line(run.error)}"
            change = "return unknown parts unchanged: check isinstance before you read an attribute"
            findings.mistakes.append(Problem(where, what, change))
            return findings
        left = conversation.places_in(run.requests[0].messages)
        if len(left) < len(conversation.places):
            hiding += 1
            findings.gaps += _gap(where, secret, conversation.places, left, bench.suite.unredacted)
        elif bench.suite.secrets:
            what = f"has {secret!r}, which {where} never hides"
            findings.mistakes.append(Problem("secrets", what, "choose texts that it hides"))
    if not hiding and not bench.suite.secrets:
        what = "hides none of the suite's secrets, so its gaps are unknown"
        findings.gaps.append(Problem(where, what, 'choose one that it hides: secrets = ["K-42"]'))
    return findings


def _gap(
    where: str, secret: str, places: Sequence[Place], left: Sequence[Place], unredacted: Sequence[str]
) -> Iterator[Problem]:
    leaks: dict[str, str] = {}
    for kind in KINDS:
        forms = [place.form for place in left if place.kind == kind]
        every = [place.form for place in places if place.kind == kind]
        if forms and kind not in unredacted:
            leaks[kind] = kind if forms == every else f"{kind} ({', '.join(forms)})"
    if leaks:
        yield Problem(
            where,
            f"leaves {secret!r} in {', '.join(leaks.values())}",
            f"hide it there too, or declare it: unredacted = {json.dumps([*unredacted, *leaks])} "
            "(no processor reaches the instructions)",
        )


@dataclass
class _Note:
    """The result of a tool that returns objects."""

    text: str


class Conversation:
    """A conversation with the secret in every place.

    Attributes:
        places: the places of the secret.
        messages: the conversation.
    """

    def __init__(self, secret: str) -> None:
        self.places: list[Place] = []
        self._secret = secret
        self.messages: list[ModelMessage] = list(self._build_messages())

    def _put(self, kind: str, form: str, separator: str = " ") -> str:
        self.places.append(Place(kind, form))
        return f"[{len(self.places) - 1}]{separator}{self._secret}"

    def _build_messages(self) -> Iterator[ModelMessage]:
        put = self._put
        file = BinaryContent(put("file", "text attached by the user").encode(), media_type="text/plain")
        url = DocumentUrl(f"https://example.org/?note{put('file', 'address', '=')}", media_type="text/plain")
        items = [put("user-prompt", "item of a list"), TextContent(put("user-prompt", "TextContent")), file, url]
        # The bench's model reads the first prompt.
        first = [UserPromptPart(PROMPT), SystemPromptPart(put("system-prompt", "text"))]
        yield ModelRequest([*first, UserPromptPart(put("user-prompt", "text")), UserPromptPart(items)])
        arguments: list[Any] = [
            {"note": put("tool-call", "argument"), "more": [{"note": put("tool-call", "nested argument")}]},
            json.dumps({"note": put("tool-call", "arguments as JSON text")}, ensure_ascii=False),
        ]
        results: list[Any] = [
            put("tool-return", "text"),
            {"note": put("tool-return", "value")},
            {"notes": [[{"note": put("tool-return", "nested value")}]]},
            {put("tool-return", "key"): 1},
            _Note(put("tool-return", "object")),
        ]
        retry: list[Any] = [
            {"type": "value_error", "loc": ("note",), "msg": "no", "input": put("tool-return", "errors of a retry")}
        ]
        calls = [ToolCallPart("look_up", value, f"c{number}") for number, value in enumerate(arguments)]
        more = range(len(calls), len(results) + 1)
        calls += [ToolCallPart("look_up", {}, f"c{number}") for number in more]
        parts = [ThinkingPart(put("thinking", "text")), TextPart(put("text", "text"))]
        file_part = FilePart(BinaryContent(put("file", "text made by the model").encode(), media_type="text/plain"))
        yield ModelResponse([*parts, file_part, *calls])
        returns = [ToolReturnPart("look_up", value, f"c{number}") for number, value in enumerate(results)]
        returns.append(ToolReturnPart("look_up", retry, f"c{len(results)}", outcome="retried"))
        yield ModelRequest([*returns])
        yield ModelResponse([TextPart("No answer.")])
        feedback = RetryFeedbackPart(put("retry-feedback", "text"), retry=RetryInfo(cause="validation_error"))
        yield ModelRequest([feedback])
        yield ModelResponse([TextPart("An answer.")])

    def places_in(self, messages: Sequence[ModelMessage]) -> list[Place]:
        """The places where the secret remains."""
        escaped = json.dumps(self._secret, ensure_ascii=False)[1:-1]
        marked = re.compile(rf"\[(\d+)\][ =](?:{re.escape(self._secret)}|{re.escape(escaped)})")
        numbers = {int(number) for text in _texts(messages) for number in marked.findall(text)}
        return [place for number, place in enumerate(self.places) if number in numbers]


def _texts(value: Any) -> Iterator[str]:
    """Every text in messages that a model may read."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, Mapping):
        for key, item in cast("Mapping[Any, Any]", value).items():
            yield from _texts(key)
            yield from _texts(item)
    elif isinstance(value, list | tuple | set):
        for item in cast("Sequence[Any]", value):
            yield from _texts(item)
    elif isinstance(value, BaseModel):
        yield from _texts(dict(value))
    elif is_dataclass(value) and not isinstance(value, type):
        for each in fields(value):
            if each.name not in NOT_SENT:
                yield from _texts(getattr(value, each.name))
