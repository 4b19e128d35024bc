"""The endpoint of the Vercel AI SDK: a chat of the client is a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_ai import DeferredToolRequests
from pydantic_ai.ui.vercel_ai import VercelAIAdapter, VercelAIEventStream
from pydantic_ai.ui.vercel_ai.request_types import DynamicToolOutputAvailablePart, ToolOutputAvailablePart
from pydantic_ai.ui.vercel_ai.response_types import BaseChunk, ToolApprovalRequestChunk

from .clients import Refused, Sent, user_content

if TYPE_CHECKING:
    from deep_sessions import Sessions
    from pydantic_ai import AgentRunResultEvent
    from pydantic_ai.ui import NativeEvent
    from starlette.responses import Response

__all__ = ["Vercel", "write_chunks"]


class Vercel:
    """A request of the Vercel AI SDK.

    Args:
        body: its body.
        sessions: whose agent is named to Pydantic AI's adapter, which runs it not.
        accept: the header.

    Raises:
        pydantic.ValidationError: it is none.
    """

    def __init__(self, body: bytes, sessions: Sessions, accept: str | None) -> None:
        self._adapter: VercelAIAdapter[Any, Any] = VercelAIAdapter(
            sessions.agent.runner.agent, VercelAIAdapter.build_run_input(body), accept=accept, sdk_version=6
        )
        self.thread: str = self._adapter.run_input.id

    def sent(self) -> Sent:
        """Return what it adds to the session.

        Raises:
            Refused: it cannot be used.
        """
        run_input = self._adapter.run_input
        if run_input.trigger == "regenerate-message":
            raise Refused("an answer cannot be made again: the server holds the history. Send another message.")
        if not run_input.messages:
            return Sent()
        last = run_input.messages[-1]
        if last.role == "user":
            [request] = self._adapter.load_messages([last])
            return Sent(user_content([*request.parts]), last.id)
        # Older messages are the client's copy of what was decided.
        of_last = replace(self._adapter, run_input=run_input.model_copy(update={"messages": [last]}))
        answers = of_last.deferred_tool_results
        results = {
            part.tool_call_id: part.output
            for part in last.parts
            if isinstance(part, ToolOutputAvailablePart | DynamicToolOutputAvailablePart)
            and isinstance(part.output, str)
        }
        return Sent(approvals={} if answers is None else answers.approvals, results=results)

    def respond(self, events: AsyncIterator[NativeEvent]) -> Response:
        """Write what happens."""
        return write_chunks(events)


class _Stream(VercelAIEventStream[Any, Any]):
    """Writes the chunks. The result of a session's run has no response, whose metadata the SDK would get."""

    async def handle_run_result(self, event: AgentRunResultEvent[Any]) -> AsyncIterator[BaseChunk]:
        """Ask about the calls that wait."""
        output = event.result.output
        if isinstance(output, DeferredToolRequests):
            for call in output.approvals:
                yield ToolApprovalRequestChunk(approval_id=call.tool_call_id, tool_call_id=call.tool_call_id)


def write_chunks(events: AsyncIterator[NativeEvent]) -> Response:
    """Write what happens as the SDK's chunks."""
    stream = _Stream(sdk_version=6)
    return stream.streaming_response(stream.transform_stream(events))
