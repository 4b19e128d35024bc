"""Choose where to cut a history: never between a tool call and its result."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any, cast

from pydantic_ai.messages import (
    BaseToolCallPart,
    BaseToolReturnPart,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,  # pyright: ignore[reportDeprecated]
    UserPromptPart,
)

from deep_core.plugin_api import live_text

from .sizes import ContextSize, in_tokens

__all__ = ["choose_cut", "parted", "safe_cuts"]

KEEP_SHARE = 0.5
"""Maximum part of a trigger in tokens to keep if `keep` counts messages: so after a summary the history can grow by as
much as was kept, however large the last messages are."""
KEEP_SHARE_SAID = 0.75
"""The same if `keep` counts tokens too: the user chose it, so limit only what would trigger again after a few
messages."""
SMALL = 1_000
"""Minimum tokens of a shortened tail (a quarter of the window, if that is less): about the size of a summary."""


def safe_cuts(messages: Sequence[ModelMessage]) -> list[int]:
    """Find the indexes at which the history may begin anew: `messages[:i]` is cut, `messages[i:]` stays.

    There is none between a call and its answer (a return of any outcome, or a retry of older versions). Unanswered
    calls of the last response wait for their results, so that response stays. The current request always stays: it is
    the last message, or the one before the kernel's live sections.
    """
    size = len(messages)
    crossed = [0] * (size + 1)  # difference array: +1 at the start of a call's span, -1 after its end
    called: dict[str, int] = {}
    pending: set[str] = set()
    last_response = -1
    for index, message in enumerate(messages):
        if isinstance(message, ModelResponse):
            pending = set()
            last_response = index
        for part in message.parts:
            if isinstance(part, BaseToolCallPart):
                # Later responses may reuse ids: a result belongs to the latest call of its id.
                called[part.tool_call_id] = index
                pending.add(part.tool_call_id)
                continue
            answered = _answered(part)
            if answered is not None:
                pending.discard(answered)
                start = called.get(answered, index)
                crossed[start + 1] += 1
                crossed[index + 1] -= 1
    depths = list(accumulate(crossed))
    end = last_response if pending else _current(messages)
    return [index for index in range(1, end + 1) if depths[index] == 0]


def parted(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Part the current request before its last prompt, so that the prompts before can be cut.

    What was said in runs that failed stays, and Pydantic AI merges it into the next request: without this, a
    conversation whose last messages did not fit would never get an answer again.
    """
    current = _current(messages)
    last = messages[current]
    prompts = [index for index, part in enumerate(last.parts) if _is_prompt(part)]
    if not isinstance(last, ModelRequest) or len(prompts) < 2 or any(map(_answered, last.parts)):
        return [*messages]
    at = prompts[-1]
    halves = (replace(last, parts=last.parts[:at]), replace(last, parts=last.parts[at:]))
    return [*messages[:current], *halves, *messages[current + 1 :]]


def _current(messages: Sequence[ModelMessage]) -> int:
    """The index of the last message that is more than live sections, which may follow the request they belong to."""
    last = len(messages) - 1
    said = (at for at in range(last, -1, -1) if any(live_text(part) is None for part in messages[at].parts))
    return next(said, last)


def _is_prompt(part: object) -> bool:
    return isinstance(part, UserPromptPart) and live_text(part) is None


def _answered(part: object) -> str | None:
    """The id of the call that a part answers: a return of any outcome, or a retry of older versions."""
    if isinstance(part, BaseToolReturnPart):
        return cast("BaseToolReturnPart[Any]", part).tool_call_id
    if isinstance(part, RetryPromptPart) and part.tool_name is not None:  # pyright: ignore[reportDeprecated]
        return part.tool_call_id
    return None


def choose_cut(
    messages: Sequence[ModelMessage],
    tokens: Sequence[int],
    *,
    keep: ContextSize,
    triggers: Sequence[ContextSize],
    window: int,
    fixed: int,
) -> int | None:
    """Choose the index to cut at; None if nothing can be cut.

    Takes the longest tail that `keep` allows, then moves down to the next safe index while the tail stays below
    the triggers, else up to the next one.

    Args:
        messages: the history.
        tokens: of each message.
        keep: how much to keep.
        triggers: the tail must stay below them.
        window: the model's window, in tokens.
        fixed: tokens of every request that no cut removes: tools and instructions.
    """
    size = len(messages)
    behind = [0, *accumulate(reversed(tokens))]  # behind[n]: tokens of the last n messages
    by_tokens = in_tokens(keep, window)
    share = KEEP_SHARE if by_tokens is None else KEEP_SHARE_SAID
    most = behind[-1]
    for trigger in triggers:
        limit = in_tokens(trigger, window)
        if limit is not None:
            room = int(max(limit - fixed, limit // 4) * share)
            most = min(most, max(room, min(SMALL, window // 4)))
    ceiling = _fitting(behind, most)
    wanted = int(keep[1]) if by_tokens is None else _fitting(behind, by_tokens)
    desired = size - max(1, min(wanted, ceiling))
    if desired <= 0:
        return None
    safe = safe_cuts(messages)
    lower = next((index for index in reversed(safe) if index <= desired), None)
    if lower is not None and size - lower <= max(1, ceiling):
        return lower
    return next((index for index in safe if index > desired), lower)


def _fitting(behind: Sequence[int], most: int) -> int:
    """How many of the last messages fit into so many tokens."""
    return bisect_right(behind, most) - 1
