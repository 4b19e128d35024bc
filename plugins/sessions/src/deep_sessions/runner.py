"""`Runner`: runs the sessions of one agent, and is what every interface stands on.

Its work has four rooms: `lease` (who may write), `mailbox` (what others leave for it), `edits` (sessions that are
loaded, and changes of their state) and `attempt` (one run of the agent). `plans` says what an attempt begins with.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Literal

from pydantic_ai import Agent, CancellationToken
from pydantic_ai.tools import DeferredToolResults
from pydantic_ai.usage import RunUsage
from pydantic_core import from_json

from deep_core import DeepAgentDeps, PluginKernel

from .attempt import Attempt, Choose, outcome_of
from .decisions import take_decisions
from .edits import Edits, Places, Workspaces
from .journal import Tap, usage_of
from .lease import Leases
from .mailbox import Mailbox
from .outcome import Outcome
from .plans import plan_of
from .run_request import Prompt, RunRequest
from .slot import JOURNAL
from .store import SessionStore

if TYPE_CHECKING:
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.workspaces import WorkspaceBackend

    from .compaction import Compacted
    from .fold import Run

__all__ = ["Outcome", "Runner"]


class Runner:
    """Runs the sessions of one agent.

    Args:
        agent: made with `capabilities=session_capabilities()`.
        store: where its sessions are.
        kernel: who made the agent.
        backend: makes or is the workspace of each session; None leaves it to the agent.
        workspaces: opens the workspace of a session for a run, such as `SessionManager.use`; used instead of `backend`.
        app: the application's own object, as `ctx.deps.app`; a function gets the session's id.
        choose: returns, for a run, the agent that runs it and further arguments of `Agent.run`; None for `agent`.
        ttl: seconds until a lease ends unless it is renewed. It is renewed three times as often.
        keep: how many sessions stay loaded between their runs.
        keep_partial: whether a conversation keeps what a run did before it was stopped: the text of an unfinished
            response too, and a result for each call. The next message follows it.
    """

    def __init__(
        self,
        agent: Agent[Any, Any],
        store: SessionStore,
        *,
        kernel: PluginKernel,
        backend: WorkspaceBackend | Callable[[str], WorkspaceBackend | None] | None = None,
        workspaces: Workspaces | None = None,
        app: Any = None,
        choose: Choose | None = None,
        ttl: float = 30.0,
        keep: int = 128,
        keep_partial: bool = False,
    ) -> None:
        self.agent = agent
        self.store = store
        self.keep_partial = keep_partial
        self._choose = choose or self._own_agent
        self._mailbox = Mailbox(store)
        self._leases = Leases(store, self._mailbox, ttl)
        self._edits = Edits(store, self._leases, Places(kernel, backend, workspaces, app), keep)

    def _own_agent(self, run: Run) -> tuple[Agent[Any, Any], Mapping[str, Any]]:
        return self.agent, {}

    @property
    def tap(self) -> Tap | None:
        """Receives the events of all runs."""
        return self._edits.tap

    @tap.setter
    def tap(self, tap: Tap | None) -> None:
        self._edits.tap = tap

    # -- runs ----------------------------------------------------------------------------------------------------------

    async def perform(self, request: RunRequest) -> Outcome:
        """Do what a request says: what `run`, `run_next`, `resume` and `retry` do.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist, and the request may not create it.
            DecisionsPending: calls wait for a person, and the request cannot pass them by.
            NothingToResume: no run is unfinished, or no message waits.
            UsageError: the session has a run of this id already, or the request names no session.
        """
        session_id, token = request.session_id or "", request.token or CancellationToken()
        create = request.create and request.verb == "message"
        async with self._leases.hold(session_id, create=create, token=token) as held:
            async with self._leases.lock(session_id):
                live = held.live = await self._edits.load(session_id)
            take_decisions(live.state)
            plan = plan_of(request, live.state)
            if plan is None:
                return outcome_of(live, "awaiting", None)
            attempt = Attempt(self._edits, held, live, plan, request, token, self._choose, self.keep_partial)
            return await attempt.run()

    async def run(
        self,
        session_id: str,
        prompt: Prompt,
        *,
        run_id: str,
        create: bool = True,
        digest: str = "",
        allowed_tools: Sequence[str] | None = None,
        system_prompt: str | None = None,
        labels: Mapping[str, str] | None = None,
        usage_limits: UsageLimits | None = None,
        token: CancellationToken | None = None,
        on_events: EventStreamHandler[Any] | None = None,
    ) -> Outcome:
        """Run the agent with a message, which is stored before the first request and stays in the conversation.

        If the last run of the session did not complete, its open calls are answered first, as the ledger knows them.

        Args:
            session_id: the session.
            prompt: the message.
            run_id: the id of this run.
            create: whether to create a session that does not exist.
            digest: of the agent's configuration.
            allowed_tools: names, kept with the run; the caller applies them.
            system_prompt: kept with the run; the caller applies it.
            labels: kept with the run, for the caller.
            usage_limits: of the run, over all its attempts.
            token: stops the run.
            on_events: receives the events of Pydantic AI's stream.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist, and `create` is False.
            DecisionsPending: calls wait for a person.
            UsageError: the session has a run of this id already.
        """
        request = RunRequest(
            verb="message",
            session_id=session_id,
            prompt=prompt,
            run_id=run_id,
            create=create,
            digest=digest,
            allowed_tools=allowed_tools,
            system_prompt=system_prompt,
            labels=labels,
            usage_limits=usage_limits,
            token=token,
            on_events=on_events,
        )
        return await self.perform(request)

    async def run_next(
        self,
        session_id: str,
        *,
        run_id: str,
        digest: str = "",
        labels: Mapping[str, str] | None = None,
        usage_limits: UsageLimits | None = None,
        token: CancellationToken | None = None,
        on_events: EventStreamHandler[Any] | None = None,
    ) -> Outcome:
        """Run the agent with the first message that waits in the session. Arguments as for `run`.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist.
            DecisionsPending: calls wait for a person.
            NothingToResume: no message waits.
        """
        request = RunRequest(
            verb="next",
            session_id=session_id,
            run_id=run_id,
            digest=digest,
            labels=labels,
            usage_limits=usage_limits,
            token=token,
            on_events=on_events,
        )
        return await self.perform(request)

    async def resume(
        self,
        session_id: str,
        *,
        usage_limits: UsageLimits | None = None,
        token: CancellationToken | None = None,
        on_events: EventStreamHandler[Any] | None = None,
    ) -> Outcome:
        """Continue the last run if it did not complete: a new attempt of the same run, from its last step.

        It may have been interrupted, may have failed, may have been aborted, or its waiting calls are decided. Returns
        at once if they still wait. Arguments as for `run`.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist.
            NothingToResume: its last run completed, or it has none.
        """
        request = RunRequest(
            verb="resume", session_id=session_id, usage_limits=usage_limits, token=token, on_events=on_events
        )
        return await self.perform(request)

    async def retry(
        self,
        session_id: str,
        *,
        usage_limits: UsageLimits | None = None,
        token: CancellationToken | None = None,
        on_events: EventStreamHandler[Any] | None = None,
    ) -> Outcome:
        """Try the last run again, as `resume` does. Raises where calls wait. Arguments as for `run`.

        Raises:
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist.
            DecisionsPending: calls wait for a person.
            NothingToResume: its last run completed, or it has none.
        """
        request = RunRequest(
            verb="retry", session_id=session_id, usage_limits=usage_limits, token=token, on_events=on_events
        )
        return await self.perform(request)

    async def compact(self, session_id: str, *, keep: str = "", token: CancellationToken | None = None) -> Compacted:
        """Make the conversation of a session shorter now, and store it. The journal keeps what was there.

        Args:
            session_id: the session.
            keep: what to keep above all, in words, for whoever writes the summary.
            token: stops it.

        Raises:
            NotCompacted: it was not made shorter; the message says why.
            SessionBusy: another runner has the session.
            SessionNotFound: it does not exist.
            DecisionsPending: calls wait for a person.
            UsageError: its last run was interrupted, and may go on.
        """
        from .compaction import compact

        token = token or CancellationToken()
        async with self._leases.hold(session_id, create=False, token=token) as held:
            async with self._leases.lock(session_id):
                live = held.live = await self._edits.load(session_id)
            return await compact(self._edits, held, live, self._choose, keep=keep, token=token)

    async def cancel(self, session_id: str) -> None:
        """Stop the run of a session, in this process or another. Does nothing if it has none.

        Calls that wait, and a run whose process died, are ended too.

        Raises:
            SessionNotFound: it does not exist.
        """
        info = await self.store.info(session_id)
        if info.holder is not None:
            await self.store.post(session_id, "cancel", b"{}")
            self._leases.poke(session_id)
        elif info.status in ("running", "awaiting"):
            await self.perform(RunRequest(verb="abort", session_id=session_id))

    # -- mail ----------------------------------------------------------------------------------------------------------

    async def post(
        self,
        session_id: str,
        kind: Literal["prompt", "steer"],
        message: Prompt,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Leave a message for a session: `steer` for the next request of its run, `prompt` for its next run.

        Args:
            session_id: the session.
            kind: what to do with it.
            message: the message.
            labels: for the run that it begins, besides those of `run_next`.

        Raises:
            SessionNotFound: it does not exist.
        """
        await self._mailbox.post(session_id, kind, message, labels)
        self._leases.poke(session_id)

    async def next_message(self, session_id: str) -> Prompt | None:
        """Return the message that `run_next` would run; None if none waits.

        Raises:
            SessionNotFound: the session does not exist.
        """
        return next(iter(await self.messages(session_id)), None)

    async def messages(self, session_id: str) -> Sequence[Prompt]:
        """Return the messages that wait, in order. `SessionInfo.sends` says who sends them.

        Raises:
            SessionNotFound: the session does not exist.
        """
        return await self._mailbox.messages(session_id)

    async def decide(self, session_id: str, results: DeferredToolResults, *, approval: str | None = None) -> None:
        """Record decisions on waiting calls, for the next `resume`, in any process.

        Args:
            session_id: the session.
            results: the decisions.
            approval: the question that they answer: `requests.approval`. Name it if an answer may come late, as over
                HTTP: a model may use the id of a call again. None answers whatever the calls ask now.

        Raises:
            NotPending: a call does not wait, was decided before, or asks something else now. Nothing is recorded.
        """
        await self._mailbox.decide(session_id, results, approval)

    # -- the state -----------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def edit(self, session_id: str) -> AsyncGenerator[DeepAgentDeps[Any]]:
        """Yield what a session's tools get as `ctx.deps`, to change its state, such as its uploads. Store what changed.

        A run may be under way, or begin meanwhile: its tools see the change. Blocks may overlap.

        Raises:
            SessionBusy: another process runs the session.
            SessionNotFound: it does not exist.
        """
        async with self._edits.edit(session_id) as deps:
            yield deps

    def backend(self, session_id: str) -> WorkspaceBackend | None:
        """Return the workspace of a session that this process has run; None before its first use."""
        return self._edits.backend(session_id)

    async def usage(self, session_id: str) -> RunUsage:
        """Return what all runs of a session used, subagents included.

        Raises:
            SessionNotFound: it does not exist.
        """
        last: dict[str, Mapping[str, Any]] = {}
        after = 0
        while page := await self.store.entries(session_id, after=after):
            after = page[-1].seq
            for entry in page:
                if entry.kind == "messages":
                    last[entry.run_id or ""] = from_json(entry.data).get("usage", {})
                elif entry.kind == "base" and (run := from_json(entry.data).get("run")):
                    last[run["id"]] = run.get("usage", {})
        total = RunUsage()
        for fields in last.values():
            total.incr(usage_of(fields))
        return total

    def phase(self, session_id: str) -> Literal["preparing", "model_running", "tool_running"]:
        """Return what the run of a session does now, in this process."""
        live = self._edits.live(session_id)
        journal = None if live is None else live.deps.state[JOURNAL]
        return "preparing" if journal is None else journal.phase
