"""What the journal and a result say about how a run ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .errors import AgentError, ModelError
from .requests.ends import EndKind, end_of_response

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

__all__ = ["ended", "finish_reason"]


def finish_reason(messages: Sequence[ModelMessage], error: AgentError | None = None) -> EndKind | None:
    """Return how the last request of a run ended; None if the run failed elsewhere, or made none.

    Args:
        messages: the conversation.
        error: what ended the run; None for a run that completed.
    """
    if error is not None:
        return error.end.kind if isinstance(error, ModelError) and error.end is not None else None
    last = next((message for message in reversed(messages) if message.kind == "response"), None)
    return None if last is None else end_of_response(last).kind


def ended(status: str, messages: Sequence[ModelMessage] = (), error: AgentError | None = None) -> dict[str, Any]:
    """Return the data of the entry `run_ended`.

    Args:
        status: how: `completed`, `failed` or `aborted`.
        messages: the conversation of a run that completed.
        error: what ended a run that failed.
    """
    data: dict[str, Any] = {"status": status}
    if reason := finish_reason(messages, error):
        data["finish_reason"] = reason
    if error is not None:
        said: dict[str, Any] = {"code": error.code, "message": error.message, "retryable": error.retryable}
        data["error"] = said if error.retry_after is None else {**said, "retry_after": error.retry_after}
    return data
