"""Count tokens of messages: every part, and each message once."""

from __future__ import annotations

import dataclasses
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, cast

from pydantic_ai import ToolDefinition
from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    BinaryContent,
    CachePoint,
    CompactionPart,
    FilePart,
    FileUrl,
    InstructionBaselinePart,
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    ModelResponsePart,
    TextContent,
    ThinkingPart,
    UploadedFile,
    UserPromptPart,
)
from pydantic_core import to_json

__all__ = ["Tally", "TokenCounter", "count_tokens_approximately", "message_chars"]

TokenCounter: TypeAlias = "Callable[[Sequence[ModelMessage]], int]"
"""Count the tokens of some messages. Called with one message at a time, once for each."""
CHARS_A_TOKEN = 4
MEDIA_TOKENS = 1_600
"""Tokens of an image or another file: Anthropic's price of an image at its size limit of 1,568 x 1,568 / 1.5
(width x height / 750 tokens); OpenAI's highest tile price is 1,445."""
TEXTS = 64
"""Maximum instruction texts to cache: agents that share a processor have few."""
TOOLS = 1_000
"""Maximum tools to cache, by name."""
MEDIA_CHARS = MEDIA_TOKENS * CHARS_A_TOKEN


def count_tokens_approximately(messages: Sequence[ModelMessage]) -> int:
    """Count characters / 4 over every part of the messages; a fixed number for an image or another file."""
    return sum(map(message_chars, messages)) // CHARS_A_TOKEN


def message_chars(message: ModelMessage) -> int:
    """Characters of a message for the model, with a fixed number for files."""
    return sum(map(_part_chars, message.parts))


def _part_chars(part: ModelRequestPart | ModelResponsePart) -> int:
    if isinstance(part, BaseToolCallPart):
        return len(part.tool_name) + value_chars(part.args)
    if isinstance(part, BaseToolReturnPart):
        return len(part.tool_name) + value_chars(part.content)
    if isinstance(part, ThinkingPart):
        return len(part.content) + len(part.signature or "") + value_chars(part.provider_details)
    if isinstance(part, FilePart):
        return MEDIA_CHARS
    if isinstance(part, CompactionPart):
        return len(part.content or "") + value_chars(part.provider_details)
    if isinstance(part, InstructionBaselinePart):
        return 0  # a record of the instructions, which are counted separately
    # Texts, prompts and retries have `content`; for parts of later versions count at least their text.
    content: object = getattr(part, "content", part)
    return value_chars(content)


def value_chars(value: Any) -> int:
    """Characters of any value in a part, as JSON if it is not text."""
    if value is None:
        return 0
    if isinstance(value, str):
        return len(value)
    if isinstance(value, BinaryContent | FileUrl | UploadedFile):
        text = isinstance(value, BinaryContent) and value.media_type.startswith("text/")
        return len(value.data) if text and isinstance(value, BinaryContent) else MEDIA_CHARS
    if isinstance(value, CachePoint):
        return 0
    if isinstance(value, TextContent):
        return len(value.content)
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value)
        return sum(len(str(key)) + value_chars(item) + 4 for key, item in entries.items())
    if isinstance(value, list | tuple):
        return sum(value_chars(item) for item in cast("Sequence[Any]", value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return sum(value_chars(getattr(value, field.name)) for field in dataclasses.fields(value))
    return len(to_json(value, fallback=str, bytes_mode="base64", inf_nan_mode="constants"))


class Tally:
    """Count messages, and cache the counts for as long as the messages live.

    It identifies messages by identity and holds no session, so one serves all sessions of an agent. The last
    message of a list is not cached: Pydantic AI may still change a request until it is sent.

    Args:
        counter: counts one message at a time.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counts: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._tools: dict[str, tuple[Mapping[str, Any], str, int]] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        """An entry is removed with its object, before another object can get the id."""

    def __len__(self) -> int:
        return len(self._counts)

    def each(self, messages: Sequence[ModelMessage]) -> list[int]:
        """Count each message."""
        if not messages:
            return []
        counts = self._counts
        out: list[int] = []
        for message in messages[:-1]:
            count = counts.get(id(message))
            out.append(self._remember(message, self.one(message)) if count is None else count)
        return [*out, self.one(messages[-1])]

    def total(self, messages: Sequence[ModelMessage]) -> int:
        """Count all messages. If only the last ones are new, count only these."""
        if not messages:
            return 0
        counts, last = self._counts, self.one(messages[-1])
        # New messages are at the end, so first fill in what follows the last known one; then one pass in C.
        for message in messages[-2::-1]:
            if id(message) in counts:
                break
            self._remember(message, self.one(message))
        try:
            return sum(map(counts.__getitem__, map(id, messages[:-1]))) + last
        except KeyError:
            return sum(self.each(messages[:-1])) + last

    def one(self, message: ModelMessage) -> int:
        """Count one message now."""
        return self._counter([message])

    def text(self, text: str) -> int:
        """Count a text, as a user prompt."""
        return self._counter([ModelRequest(parts=[UserPromptPart(text)])])

    def standing(self, text: str) -> int:
        """Count a text that stays the same for many requests."""
        count = self._texts.get(text)
        if count is None:
            count = self.text(text)
            if len(self._texts) >= TEXTS:
                self._texts.clear()
            self._texts[text] = count
        return count

    def tool(self, definition: ToolDefinition) -> int:
        """Count a tool's name, description and schema.

        Every request has new definitions, because each toolset around a tool replaces a field; the schema is the
        same object.
        """
        schema, description = definition.parameters_json_schema, definition.description or ""
        known = self._tools.get(definition.name)
        if known is None or known[0] is not schema or known[1] != description:
            text = json.dumps(schema, separators=(",", ":"), default=str)
            if len(self._tools) >= TOOLS:
                self._tools.clear()
            known = (schema, description, self.text(f"{definition.name}{description}{text}"))
            self._tools[definition.name] = known
        return known[2]

    def _remember(self, item: Any, count: int) -> int:
        key, counts, alive = id(item), self._counts, self._alive

        def forget(_: object) -> None:
            counts.pop(key, None)
            alive.pop(key, None)

        alive[key] = weakref.ref(item, forget)
        counts[key] = count
        return count


def responses(messages: Sequence[ModelMessage]) -> int:
    """Count the model's messages."""
    return sum(isinstance(message, ModelResponse) for message in messages)
