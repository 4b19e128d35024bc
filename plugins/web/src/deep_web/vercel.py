"""The endpoint of the Vercel AI SDK: a chat of the client is a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from deep_sessions import WaitingCalls
from pydantic_ai.ui.vercel_ai import VercelAIAdapter, VercelAIEventStream
from pydantic_ai.ui.vercel_ai.request_types import (
    DynamicToolApprovalRespondedPart,
    DynamicToolOutputAvailablePart,
    ToolApprovalRespondedPart,
    ToolOutputAvailablePart,
)
from pydantic_ai.ui.vercel_ai.response_types import (
    BaseChunk,
    TextDeltaChunk,
    TextEndChunk,
    TextStartChunk,
    ToolApprovalRequestChunk,
)

from .clients import Again, Refused, Sent, name_of, user_content

if TYPE_CHECKING:
    from deep_sessions import Sessions
    from pydantic_ai import AgentRunResultEvent
    from pydantic_ai.ui import NativeEvent
    from starlette.responses import Response

    from .clients import Shown

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
        decided = {} if answers is None else answers.approvals
        names = {
            part.approval.id: part.tool_call_id
            for part in last.parts
            if isinstance(part, ToolApprovalRespondedPart | DynamicToolApprovalRespondedPart) and part.approval
        }
        results = {
            part.tool_call_id: part.output
            for part in last.parts
            if isinstance(part, ToolOutputAvailablePart | DynamicToolOutputAvailablePart)
            and isinstance(part.output, str)
        }
        approvals = {name: decided[call] for name, call in names.items() if call in decided}
        return Sent(approvals=approvals, results=results)

    def respond(self, events: AsyncIterator[Shown]) -> Response:
        """Write what happens."""
        return write_chunks(events)


class _Stream(VercelAIEventStream[Any, Any]):
    """Writes the chunks. The result of a session's run has no response, whose metadata the SDK would get."""

    async def handle_event(self, event: Shown) -> AsyncIterator[BaseChunk]:
        """Say it where an answer begins again: the protocol has no way to take back what was written."""
        if isinstance(event, Again):
            text = self.new_message_id()
            yield TextStartChunk(id=text)
            yield TextDeltaChunk(id=text, delta=f"\n\n*{event.words}*\n\n")
            yield TextEndChunk(id=text)
            return
        async for chunk in super().handle_event(event):
            yield chunk

    async def handle_run_result(self, event: AgentRunResultEvent[Any]) -> AsyncIterator[BaseChunk]:
        """Ask about the calls that wait."""
        output = event.result.output
        if isinstance(output, WaitingCalls):
            for call in output.approvals:
                name = name_of(output.approval, call.tool_call_id)
                yield ToolApprovalRequestChunk(approval_id=name, tool_call_id=call.tool_call_id)


def write_chunks(events: AsyncIterator[Shown]) -> Response:
    """Write what happens as the SDK's chunks."""
    stream = _Stream(sdk_version=6)
    return stream.streaming_response(stream.transform_stream(cast("AsyncIterator[NativeEvent]", events)))
