"""How an attempt to run a session ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai.messages import ModelMessage, ModelResponse

from .endings import finish_reason
from .errors import as_agent_error
from .requests.ends import EndKind

if TYPE_CHECKING:
    from pydantic_ai import AgentRunResult
    from pydantic_ai.usage import RunUsage

    from .decisions import WaitingCalls

__all__ = ["Outcome"]


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended.

    Attributes:
        run_id: the run.
        status: `awaiting`: calls wait for a person.
        result: Pydantic AI's result; None if the run failed or was aborted, or had ended before.
        messages: the conversation as stored.
        requests: the calls that wait.
        usage: of the run, over all attempts, subagents included.
        error: what ended it.
    """

    run_id: str
    status: Literal["completed", "awaiting", "failed", "aborted"]
    result: AgentRunResult[Any] | None
    messages: Sequence[ModelMessage]
    requests: WaitingCalls | None
    usage: RunUsage
    error: BaseException | None = None

    @property
    def text(self) -> str | None:
        """The final text of a run that completed; None without one."""
        last = self.messages[-1] if self.status == "completed" and self.messages else None
        return last.text if isinstance(last, ModelResponse) else None

    @property
    def finish_reason(self) -> EndKind | None:
        """How its last request ended, as `RunResult.finish_reason` says."""
        if self.status not in ("completed", "failed"):
            return None
        return finish_reason(self.messages, None if self.error is None else as_agent_error(self.error))
