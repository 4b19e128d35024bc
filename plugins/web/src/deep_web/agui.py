"""The endpoint of AG-UI: a thread of the client is a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic_ai.ui.ag_ui import AGUIAdapter

from .clients import Sent, user_content

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from deep_sessions import Sessions
    from pydantic_ai.ui import NativeEvent
    from starlette.responses import Response

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
        self._adapter: AGUIAdapter[Any, Any] = AGUIAdapter(
            sessions.agent.runner.agent, AGUIAdapter.build_run_input(body), accept=accept
        )
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

    def respond(self, events: AsyncIterator[NativeEvent]) -> Response:
        """Write what happens."""
        return self._adapter.streaming_response(self._adapter.transform_stream(events))
