"""How large messages are: every part counts, and each message is counted once."""

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
"""Counts the tokens of some messages. It is asked about one message at a time, once for each."""
CHARS_A_TOKEN = 4
MEDIA_TOKENS = 1_600
"""Price of an image or another file: what Anthropic bills for an image at its size limit of 1,568 x 1,568 / 1.5
(width x height / 750 tokens); OpenAI's highest tile price is 1,445."""
TEXTS = 64
"""Instruction texts remembered: agents that share a processor have few."""
TOOLS = 1_000
"""Tools remembered, by name."""
MEDIA_CHARS = MEDIA_TOKENS * CHARS_A_TOKEN


def count_tokens_approximately(messages: Sequence[ModelMessage]) -> int:
    """Characters / 4, over every part of the messages; a fixed price for an image or another file."""
    return sum(map(message_chars, messages)) // CHARS_A_TOKEN


def message_chars(message: ModelMessage) -> int:
    """Characters of a message as the model will read it, files at their price."""
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
        return 0  # a record of the instructions, which are counted as such
    # Texts, prompts and retries have `content`; parts of later versions at least what they hold as text.
    content: object = getattr(part, "content", part)
    return value_chars(content)


def value_chars(value: Any) -> int:
    """Characters of any value that can stand in a part, as JSON where it is not text."""
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
    """Counts of messages, remembered for as long as the messages live.

    It knows messages by identity, and nothing of whose they are, so one serves all sessions of an agent. The last
    message of a list is not remembered: Pydantic AI may still add to a request until it was sent.

    Args:
        counter: of one message at a time.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._counts: dict[int, int] = {}
        self._texts: dict[str, int] = {}
        self._tools: dict[str, tuple[Mapping[str, Any], str, int]] = {}
        self._alive: dict[int, weakref.ref[Any]] = {}
        """An entry goes when its object does, before the id can belong to another."""

    def __len__(self) -> int:
        return len(self._counts)

    def each(self, messages: Sequence[ModelMessage]) -> list[int]:
        """Tokens of each message."""
        if not messages:
            return []
        counts = self._counts
        out: list[int] = []
        for message in messages[:-1]:
            count = counts.get(id(message))
            out.append(self._remember(message, self.one(message)) if count is None else count)
        return [*out, self.one(messages[-1])]

    def total(self, messages: Sequence[ModelMessage]) -> int:
        """Tokens of all messages. Where only the last ones are new, only these are counted."""
        if not messages:
            return 0
        counts, last = self._counts, self.one(messages[-1])
        # New messages are at the end, so what is behind the last known one is filled in first; then one pass in C.
        for message in messages[-2::-1]:
            if id(message) in counts:
                break
            self._remember(message, self.one(message))
        try:
            return sum(map(counts.__getitem__, map(id, messages[:-1]))) + last
        except KeyError:
            return sum(self.each(messages[:-1])) + last

    def one(self, message: ModelMessage) -> int:
        """Tokens of one message, counted now."""
        return self._counter([message])

    def text(self, text: str) -> int:
        """Tokens of a text, as a user prompt."""
        return self._counter([ModelRequest(parts=[UserPromptPart(text)])])

    def standing(self, text: str) -> int:
        """Tokens of a text that stays the same for many requests."""
        count = self._texts.get(text)
        if count is None:
            count = self.text(text)
            if len(self._texts) >= TEXTS:
                self._texts.clear()
            self._texts[text] = count
        return count

    def tool(self, definition: ToolDefinition) -> int:
        """Tokens of a tool's name, description and schema.

        Every request has new definitions, as each toolset around a tool replaces something in them; the schema is the
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
    """How many of the messages are the model's."""
    return sum(isinstance(message, ModelResponse) for message in messages)
