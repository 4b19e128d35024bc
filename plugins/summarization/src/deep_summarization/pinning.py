"""Messages that survive every summary word for word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

from pydantic_ai.messages import BaseToolReturnPart, ModelMessage, ModelRequest, UserContent, UserPromptPart

from deep_core.plugin_api import live_text

from .frames import is_summary

__all__ = ["pin", "pinned_parts"]

PIN = "pin"
"""The key in a message's or a tool return's metadata."""


def pin(message: ModelRequest) -> ModelRequest:
    """Copy a request so that its user prompts survive every summary.

    A tool pins its result with `ToolReturn(…, metadata={"pin": True})`: after a summary it is kept as text.
    Pydantic AI drops a message's metadata when it merges two requests; a tool return keeps its own.
    """
    return replace(message, metadata={**(message.metadata or {}), PIN: True})


def pinned_parts(messages: Sequence[ModelMessage], *, standing: Sequence[UserPromptPart] = ()) -> list[UserPromptPart]:
    """List the pinned parts to repeat after these messages are cut, in order, except those already there."""
    known = set(map(id, standing))
    out: list[UserPromptPart] = []
    for message in messages:
        if not isinstance(message, ModelRequest):
            continue
        whole = bool((message.metadata or {}).get(PIN))
        for part in message.parts:
            if isinstance(part, UserPromptPart):
                if whole and id(part) not in known and live_text(part) is None and not is_summary(part):
                    out.append(part)
            elif isinstance(part, BaseToolReturnPart) and (whole or _is_pinned(part.metadata)):
                out.append(UserPromptPart(_as_prompt(part), timestamp=part.timestamp))
    return out


def _is_pinned(metadata: object) -> bool:
    return isinstance(metadata, dict) and bool(cast("dict[str, Any]", metadata).get(PIN))


def _as_prompt(part: BaseToolReturnPart[Any]) -> str | list[UserContent]:
    text = part.model_response_str(wrap_if_error=False)
    head = f"Kept from an earlier call of {part.tool_name}:\n{text}"
    return [head, *part.files] if part.files else head
