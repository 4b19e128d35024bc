"""Refuse a call whose arguments were cut at the model's limit of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic_ai.exceptions import ModelRetry
from pydantic_ai.messages import ModelResponse, ToolCallPart

if TYPE_CHECKING:
    from ..run.session import Ctx

CUT = (
    "Not executed: your answer was cut at its limit of tokens inside of this call, so its arguments are not whole. "
    "Make the call again with less, such as a part of the text now and the rest in further calls."
)


def refuse_cut(ctx: Ctx, call: ToolCallPart) -> None:
    """Refuse the call that an answer ends with if the answer was cut: arguments that are valid may be cut all the same.

    Raises:
        ModelRetry: for the model.
    """
    last = ctx.messages[-1] if ctx.messages else None
    if not isinstance(last, ModelResponse) or last.finish_reason != "length" or not last.parts:
        return
    end = last.parts[-1]
    if isinstance(end, ToolCallPart) and end.tool_call_id == call.tool_call_id:
        raise ModelRetry(CUT)
