"""The endpoint of AG-UI: a thread of the client is a session."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    FunctionCall,
    MessagesSnapshotEvent,
    ReasoningMessage,
    ReasoningMessageContentEvent,
    ReasoningMessageStartEvent,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageContentEvent,
    TextMessageStartEvent,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)
from deep_sessions import WaitingCalls
from pydantic_ai.ui.ag_ui import AGUIAdapter, AGUIEventStream

from .clients import Again, Sent, name_of, user_content

if TYPE_CHECKING:
    from ag_ui.core import Message
    from deep_sessions import Sessions
    from pydantic_ai import AgentRunResultEvent
    from pydantic_ai.ui import NativeEvent
    from starlette.responses import Response

    from .clients import Shown

__all__ = ["AgUi"]


class AgUi:
    """A request of AG-UI.

    Args:
        body: its body.
        sessions: whose agent is named to Pydantic AI's adapter, which runs it not.
        accept: the header.

    Raises:
        pydantic.ValidationError: it is none.
    """

    def __init__(self, body: bytes, sessions: Sessions, accept: str | None) -> None:
        self._adapter = _Adapter(sessions.agent.runner.agent, AGUIAdapter.build_run_input(body), accept=accept)
        self.thread: str = self._adapter.run_input.thread_id

    def sent(self) -> Sent:
        """Return what it adds to the session.

        Raises:
            Refused, UserError: it cannot be used.
        """
        messages = self._adapter.run_input.messages
        answers = self._adapter.deferred_tool_results
        if answers is None and messages and messages[-1].role == "user":
            [request] = self._adapter.load_messages([messages[-1]])
            return Sent(user_content([*request.parts]), messages[-1].id)
        results: dict[str, str] = {}
        for message in reversed(messages):
            if message.role == "assistant":
                break
            if message.role == "tool" and isinstance(message.content, str):
                results[message.tool_call_id] = message.content
        return Sent(approvals={} if answers is None else answers.approvals, results=results)

    def respond(self, events: AsyncIterator[Shown]) -> Response:
        """Write what happens."""
        native = cast("AsyncIterator[NativeEvent]", events)
        return self._adapter.streaming_response(self._adapter.transform_stream(native))


class _Adapter(AGUIAdapter[Any, Any]):
    """Makes streams that can take back what they wrote."""

    def build_event_stream(self) -> _Stream:
        """Make one."""
        return _Stream(self.run_input, accept=self.accept)


class _Stream(AGUIEventStream[Any, Any]):
    """Writes the events. Where an answer begins again, it sends all messages without what was written of it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._written: list[Message] = []
        """The messages that the client has made of the events so far."""
        self._approval = ""
        """The question that the stream ends with."""
        self._calls: dict[str, ToolCall] = {}

    async def handle_event(self, event: Shown) -> AsyncIterator[BaseEvent]:
        """Write an event."""
        if isinstance(event, Again):
            del self._written[len(self._written) - len(event.parts) :]  # each part is a message
            sent = [] if self.run_input is None else self.run_input.messages
            yield MessagesSnapshotEvent(messages=[*sent, *self._written], timestamp=self._get_timestamp())
            return
        async for each in super().handle_event(event):
            self._note(each)
            yield each

    async def handle_run_result(self, event: AgentRunResultEvent[Any]) -> AsyncIterator[BaseEvent]:
        """Learn what the calls that wait ask."""
        output = event.result.output
        if isinstance(output, WaitingCalls):
            self._approval = output.approval
        async for each in super().handle_run_result(event):
            yield each

    async def after_stream(self) -> AsyncIterator[BaseEvent]:
        """End the stream: each interrupt names its question beside its call."""
        async for each in super().after_stream():
            if isinstance(each, RunFinishedEvent) and isinstance(each.outcome, RunFinishedInterruptOutcome):
                for interrupt in each.outcome.interrupts:
                    interrupt.id = f"int-{name_of(self._approval, interrupt.tool_call_id or '')}"
            yield each

    def _note(self, event: BaseEvent) -> None:
        """Note what a client makes of an event."""
        last = self._written[-1] if self._written else None
        match event:
            case TextMessageStartEvent():
                self._written.append(AssistantMessage(id=event.message_id, content=""))
            case TextMessageContentEvent() if isinstance(last, AssistantMessage):
                last.content = f"{last.content or ''}{event.delta}"
            case ReasoningMessageStartEvent():
                self._written.append(ReasoningMessage(id=event.message_id, content=""))
            case ReasoningMessageContentEvent() if isinstance(last, ReasoningMessage):
                last.content += event.delta
            case ToolCallStartEvent():
                call = ToolCall(id=event.tool_call_id, function=FunctionCall(name=event.tool_call_name, arguments=""))
                self._calls[call.id] = call
                for message in self._written:
                    if isinstance(message, AssistantMessage) and message.id == event.parent_message_id:
                        message.tool_calls = [*(message.tool_calls or []), call]
            case ToolCallArgsEvent():
                self._calls[event.tool_call_id].function.arguments += event.delta
            case ToolCallResultEvent():
                made = ToolMessage(id=event.message_id, tool_call_id=event.tool_call_id, content=event.content)
                self._written.append(made)
            case _:
                return
