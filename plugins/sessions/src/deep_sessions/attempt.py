"""One attempt to run a session under its lease: write how it begins, run the agent, write how it ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import Agent, CancellationToken, DeferredToolRequests
from pydantic_ai.exceptions import RunCancelled, RunTimedOut
from pydantic_ai.messages import (
    ModelRequest,
    ModelResponse,
    ModelResponsePart,
    PartEndEvent,
    PartStartEvent,
    repair_messages,
)

from .decisions import waiting_calls
from .edits import Edits, Live
from .endings import ended
from .entries import encode
from .errors import AgentError, as_agent_error
from .fold import Run
from .handing_back import refusal_to_hand_back
from .journal import Journal, usage_of
from .lease import Held
from .outcome import Outcome
from .plans import Plan
from .run_request import RunRequest
from .slot import JOURNAL

if TYPE_CHECKING:
    from pydantic_ai import AgentRunResult, RunContext
    from pydantic_ai.agent import EventStreamHandler

    from .store import SessionStatus

__all__ = ["Attempt", "Choose", "outcome_of"]

Choose = Callable[[Run], tuple[Agent[Any, Any], Mapping[str, Any]]]
"""Returns, for a run, the agent that runs it and further arguments of `Agent.run`."""


class Streamed:
    """Passes events on, and keeps the parts of the response that was streamed last.

    Pydantic AI forgets a response that is whole when its run is stopped, and that it has not taken up yet.

    Args:
        handler: receives the events.
    """

    def __init__(self, handler: EventStreamHandler[Any]) -> None:
        self._handler = handler
        self._parts: dict[int, ModelResponsePart] = {}
        self._model: str | None = None

    async def __call__(self, ctx: RunContext[Any], events: AsyncIterable[Any]) -> None:
        """Receive the events of one response, or of its calls."""
        self._parts, self._model = {}, ctx.model.model_name
        await self._handler(ctx, self._keep(events))

    async def _keep(self, events: AsyncIterable[Any]) -> AsyncIterator[Any]:
        async for event in events:
            if isinstance(event, PartStartEvent) and event.index == 0:  # also where an answer begins again
                self._parts = {}
            elif isinstance(event, PartEndEvent):
                self._parts[event.index] = event.part
            yield event

    def response(self, run_id: str) -> ModelResponse | None:
        """Return the response, as one that was interrupted; None if it has no whole part."""
        if not self._parts:
            return None
        return ModelResponse([*self._parts.values()], model_name=self._model, run_id=run_id, state="interrupted")


@dataclass(eq=False, repr=False)
class Attempt:
    """One attempt.

    Attributes:
        edits: keeps the session loaded.
        held: the lease.
        live: the session.
        plan: what the agent gets.
        request: what the caller asked for.
        token: stops the attempt.
        choose: chooses the agent.
        keep_partial: whether the conversation keeps what the run did before it was stopped.
    """

    edits: Edits
    held: Held
    live: Live
    plan: Plan
    request: RunRequest
    token: CancellationToken
    choose: Choose
    keep_partial: bool

    @property
    def _session_id(self) -> str:
        return self.held.lease.session_id

    async def run(self) -> Outcome:
        """Run, and return how it ended.

        Raises:
            AgentError: the lease was lost, or the store failed: the session stays resumable.
        """
        if (status := self.plan.ended) is not None:
            journal = await self._start()
            await self._end(journal, status, "idle" if status == "completed" else "aborted")
            return outcome_of(self.live, status, None)
        async with AsyncExitStack() as stack:
            try:
                await stack.enter_async_context(self.edits.workspace(self._session_id, self.live))
            except BaseException:
                self.edits.unload(self._session_id)  # the plan has changed it
                raise
            return await self._execute()

    async def _execute(self) -> Outcome:
        held, live, plan, request = self.held, self.live, self.plan, self.request
        journal = held.journal = await self._start()
        held.began.set()
        for mail in live.state.mail:
            if mail.kind == "steer":
                journal.steer(mail)
        live.deps.state[JOURNAL] = journal
        agent, chosen = self.choose(plan.run)
        streamed = Streamed(request.on_events) if request.on_events is not None and self.keep_partial else None
        options: dict[str, Any] = {**chosen, "event_stream_handler": streamed or request.on_events}
        if request.usage_limits is not None:
            options["usage_limits"] = request.usage_limits
        try:
            result = await agent.run(
                plan.prompt,
                message_history=plan.history,
                deferred_tool_results=plan.results,
                run_id=plan.run.attempt_id,
                conversation_id=self._session_id,
                deps=live.deps,
                usage=usage_of(plan.run.usage),
                cancellation_token=self.token,
                **options,
            )
        except RunCancelled as error:
            if isinstance(error, RunTimedOut):
                return await self._failed(journal, error)
            if held.lost is not None:
                self.edits.unload(self._session_id)
                raise held.lost from error
            if self.keep_partial:
                await self._settle_partial(journal, error, streamed)
            await self._end(journal, "aborted", "aborted")
            return outcome_of(live, "aborted", None, error)
        except asyncio.CancelledError:
            # The task was cancelled: the session stays resumable, as after a crash.
            self.edits.unload(self._session_id)
            raise
        except (Exception, SystemExit) as error:  # a plugin that exits ends its run, not the process
            if journal.failure is not None:  # nothing more can be written; the session stays resumable
                self.edits.unload(self._session_id)
                raise journal.failure from error
            if (refusal := refusal_to_hand_back(error)) is not None:
                self.edits.unload(self._session_id)
                raise refusal from error
            return await self._failed(journal, error)
        finally:
            held.journal = live.deps.state[JOURNAL] = None
            await live.deps.state.release()
            await journal.flush()
        waits = isinstance(result.output, DeferredToolRequests)
        if (run := live.state.run) is not None:
            run.status = "paused" if waits else "completed"
            run.requests = result.output if waits else None
            run.decisions = {}
        return outcome_of(live, "awaiting" if waits else "completed", result)

    async def _start(self) -> Journal:
        state, run = self.live.state, self.plan.run
        journal = self.edits.journal(self.held.lease, state, run.id)
        data: dict[str, Any] = {"digest": run.digest, "attempt": run.attempt}
        if run.attempt == 1 and run.prompt is not None:
            data["prompt"] = run.prompt
        if run.allowed_tools is not None:
            data["allowed_tools"] = run.allowed_tools
        if run.system_prompt is not None:
            data["system_prompt"] = run.system_prompt
        if run.labels:
            data["labels"] = run.labels
        if state.run is not run:
            run.follow(state.run, time.time())
            data["began"] = run.began
        entries = [encode("run_started", data, run.id)]
        if state.run is not None and state.run.digest != run.digest:
            changed = {"before": state.run.digest, "after": run.digest}
            entries.insert(0, encode("config_changed", changed, run.id))
        if run.decisions:
            entries.append(encode("decided", {"decisions": run.decisions}, run.id))
        # A request to stop was about the run before.
        read = [mail.id for mail in state.mail if mail.kind in ("decision", "cancel") or mail.id == self.plan.mail]
        await journal.write(*entries, read=read, status="running")
        state.mail = [mail for mail in state.mail if mail.id not in read]
        state.run, run.status, run.error = run, "running", None
        return journal

    async def _settle_partial(self, journal: Journal, error: RunCancelled, streamed: Streamed | None) -> None:
        """Store what a run did before it was stopped, if the model has answered in it."""
        run = self.live.state.run
        said = [message for message in error.all_messages() if message.parts or isinstance(message, ModelRequest)]
        if run is not None and streamed is not None and said and isinstance(said[-1], ModelRequest):
            said += [response] if (response := streamed.response(run.attempt_id)) is not None else []
        if run is None or not any(isinstance(message, ModelResponse) and run.wrote(message) for message in said):
            return
        self.live.state.root.joined = False  # the error has copies of the messages
        await journal.settle("", repair_messages(said), self.live.deps.state, error.usage)

    async def _failed(self, journal: Journal, error: BaseException) -> Outcome:
        known = as_agent_error(error)
        await self._end(journal, "failed", "failed", known)
        # What no model can be sent is in it as an object, and stored as text.
        self.edits.unload_unedited(self._session_id)
        return outcome_of(self.live, "failed", None, error)

    async def _end(
        self,
        journal: Journal,
        status: Literal["completed", "failed", "aborted"],
        shown: SessionStatus,
        error: AgentError | None = None,
    ) -> None:
        data = ended(status, self.live.state.messages() if status == "completed" else (), error)
        await journal.write(encode("run_ended", data, journal.run_id), read=journal.stops, status=shown)
        state = self.live.state
        if state.run is not None:
            state.run.status, state.run.error = status, data.get("error")
            state.run.requests, state.run.decisions = None, {}
        state.keep_prompt()


def outcome_of(
    live: Live,
    status: Literal["completed", "awaiting", "failed", "aborted"],
    result: AgentRunResult[Any] | None,
    error: BaseException | None = None,
) -> Outcome:
    """Return how an attempt ended, with the session as it is now."""
    run = live.state.run or Run("")
    return Outcome(run.id, status, result, live.state.messages(), waiting_calls(run), usage_of(run.usage), error)
