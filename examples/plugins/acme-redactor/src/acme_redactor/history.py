"""A history processor: it changes messages before each request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from deep_core import Processor
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequestPart,
    ModelResponsePart,
    RetryFeedbackPart,
    SystemPromptPart,
    TextContent,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_core import to_jsonable_python

from .options import RedactorOptions

__all__ = ["build_redactor"]

MASK = "[hidden]"


def build_redactor(options: RedactorOptions) -> Processor:
    """Hide what the option `hide` matches in prompts, answers, calls and results, but not in files and thinking."""

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            return options.hide.sub(MASK, value)
        if isinstance(value, TextContent):
            return replace(value, content=hidden(value.content))
        if isinstance(value, list | tuple):
            return [hidden(item) for item in cast("list[Any]", value)]
        if isinstance(value, Mapping):
            return {hidden(key): hidden(item) for key, item in cast("Mapping[Any, Any]", value).items()}
        return value

    def part_redacted(part: ModelRequestPart | ModelResponsePart) -> ModelRequestPart | ModelResponsePart:
        if isinstance(part, ToolCallPart):
            return replace(part, args=hidden(part.args))
        if isinstance(part, ToolReturnPart) and not part.files:
            # A tool may return any object. The model reads its JSON.
            return replace(part, content=hidden(to_jsonable_python(part.content)))
        if isinstance(part, SystemPromptPart | UserPromptPart | ToolReturnPart | RetryFeedbackPart | TextPart):
            return replace(part, content=hidden(part.content))
        # Thinking stays: the provider signs it, and rejects changed thinking.
        return part

    def redact(messages: list[ModelMessage]) -> list[ModelMessage]:
        return [replace(message, parts=[part_redacted(part) for part in message.parts]) for message in messages]

    # The phase `redact` runs first, and an error in it ends the run, so nothing is sent unredacted.
    return Processor("redact", redact, phase="redact")
