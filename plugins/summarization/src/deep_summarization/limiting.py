"""The limits of `[agent.context]`: how many messages and tokens a request sends."""

from __future__ import annotations

import logging
from typing import Any

from pydantic_ai.exceptions import UsageLimitExceeded
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelRequestPart,
    ModelResponse,
    SystemPromptPart,
    UserPromptPart,
)
from pydantic_ai.tools import RunContext

from .cutting import safe_cuts
from .processor import SummarizationProcessor, window_of

__all__ = ["Limits"]

STEPS = 4
"""The start of what is sent moves by a quarter of the limit at once: each move costs the provider's cache."""


class Limits:
    """Leave the oldest messages out of a request, and end the run where a request is too large.

    The stored history stays whole.

    Args:
        messages: most messages of a request; None for no limit.
        tokens: most tokens of a request; None for no limit.
        log: warns about a limit above the model's window.
    """

    def __init__(self, *, messages: int | None, tokens: int | None, log: logging.Logger) -> None:
        self._messages, self._tokens, self._log = messages, tokens, log
        self._size = SummarizationProcessor(max_input_tokens=tokens)
        self._warned = False

    def __call__(self, ctx: RunContext[Any], messages: list[ModelMessage]) -> list[ModelMessage]:
        """Return the messages to send.

        Raises:
            UsageLimitExceeded: they have too many tokens.
        """
        shown = messages if self._messages is None else newest(messages, self._messages)
        if self._tokens is not None:
            window = window_of(ctx.model)
            if window is not None and window < self._tokens and not self._warned:
                self._warned = True
                self._log.warning("context.max_input_tokens is %d, and the model's window has %d", self._tokens, window)
            used = self._size.tokens(ctx, shown, whole=shown is messages)
            if used > self._tokens:
                raise UsageLimitExceeded(
                    f"the next request has about {used} tokens, and context.max_input_tokens is {self._tokens}. Begin "
                    "a new session, or let deep-summarization compact this one: context.enable_compaction = true"
                )
        return shown


def newest(messages: list[ModelMessage], most: int) -> list[ModelMessage]:
    """Return at most so many messages, the last ones, and more only where a call would lose its result.

    A system prompt of the first message stays, and so does the last prompt, if the first of the last messages is an
    answer: providers expect a conversation to begin with a request.
    """
    if len(messages) <= most:
        return messages
    step = max(1, most // STEPS)
    head, at = _split(messages, most, step)
    if head and most > 1:
        head, at = _split(messages, most - 1, step)  # it is a message too
    return messages if at == 0 else [*([ModelRequest(head)] if head else []), *messages[at:]]


def _split(messages: list[ModelMessage], most: int, step: int) -> tuple[list[ModelRequestPart], int]:
    """Return what stays of the messages that are left out, and where the last messages begin."""
    wanted = -(-(len(messages) - most) // step) * step
    cuts = safe_cuts(messages)
    at = next((cut for cut in cuts if cut >= wanted), cuts[-1] if cuts else 0)
    if at == 0:
        return [], 0
    head: list[ModelRequestPart] = [part for part in messages[0].parts if isinstance(part, SystemPromptPart)]
    if isinstance(messages[at], ModelResponse):
        prompts = ([part for part in m.parts if isinstance(part, UserPromptPart)] for m in reversed(messages[:at]))
        head += next(filter(None, prompts), ())
    return head, at
