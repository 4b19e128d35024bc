"""Run a task in a stored session, for `deep run --session`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Coroutine, Mapping
from typing import TYPE_CHECKING, Any

from deep_core.plugin_api import visible

from ..failure import USAGE, Failure
from .approval import Approver, questions
from .attach import Message
from .plan import MODE, PLAN

if TYPE_CHECKING:
    from deep_sessions import Outcome, SessionStore
    from pydantic_ai import Agent
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import Kernel

    from .plan import PlanModes

__all__ = ["StoredSession"]


class StoredSession:
    """A session in a store.

    Args:
        name: the session's id.
        store: where it is, or will be.
        kernel: the kernel that made the agent.
        agent: made with `session_capabilities()`.
        loop: runs everything.
        approver: decides the calls that wait.
        how: further arguments of each attempt.
        labels: kept with the run: `deep chat --resume` reads its model and backend there.
        modes: the agents of its runs.
    """

    def __init__(
        self,
        name: str,
        store: SessionStore,
        kernel: Kernel,
        agent: Agent[Any, Any],
        loop: asyncio.Runner,
        approver: Approver,
        how: Mapping[str, Any],
        labels: Mapping[str, str],
        modes: PlanModes,
    ) -> None:
        from deep_sessions import Runner

        self.name = name
        self._runner = Runner(agent, store, kernel=kernel, choose=modes.choose)
        self._loop = loop
        self._approver = approver
        self._how = how
        self._labels = labels
        self.plan = False
        """Whether new runs are in plan mode."""
        self._store = store
        self.finish_reason: str | None = None
        """How the last request ended."""

    async def take_up(self) -> None:
        """Give the folder a session without an owner, as one that was queued.

        Raises:
            Failure: the session is another folder's, or another owner's.
            AgentError: the store fails.
        """
        from deep_sessions import SessionNotFound

        everywhere = self._store.root
        try:
            info = await everywhere.info(self.name)
        except SessionNotFound:
            return
        if info.owner == self._store.owner:
            return
        from deep_sessions import load_session  # 13 ms, which a new session does not need

        run = (await load_session(everywhere, self.name)).run
        place = run.labels.get("folder") if run is not None else None
        if info.owner is not None or place not in (None, self._labels["folder"]):
            where = f"{place}: cd there" if place else "another owner: leave it"
            raise Failure(f"--session {visible(self.name)}: it is of {where}, or choose another name", USAGE)
        await self._store.adopt(self.name)

    def converse(self, prompt: Message | None) -> str:
        """Run the agent, again with the answers while calls wait for them; return its final text.

        Calls that wait from an earlier run are asked about first. Messages that other processes left in the session
        follow, and their answers are returned too.

        Args:
            prompt: the task; None continues the last run.

        Raises:
            AgentError: another process runs the session, it has nothing to continue, or its store fails.
            Exception: what ended the run.
        """
        from deep_sessions import DecisionsPending, NothingToResume

        runner = self._runner
        texts: list[str] = []
        if prompt is None:
            try:
                texts.append(self._end(runner.resume(self.name, **self._how)))
            except NothingToResume:
                if not self._has_message():
                    raise
        else:
            try:
                texts.append(self._end(self._run(prompt)))
            except DecisionsPending:
                self._end(runner.resume(self.name, **self._how))
                texts.append(self._end(self._run(prompt)))
        while self._has_message():
            new = uuid.uuid4().hex
            texts.append(self._end(runner.run_next(self.name, run_id=new, labels=self.labels, **self._how)))
        return "\n\n".join(texts)

    def _run(self, prompt: Message) -> Coroutine[Any, Any, Outcome]:
        return self._runner.run(self.name, prompt, run_id=uuid.uuid4().hex, labels=self.labels, **self._how)

    @property
    def labels(self) -> Mapping[str, str]:
        """What a new run keeps."""
        return {**self._labels, MODE: PLAN} if self.plan else self._labels

    def state(self) -> tuple[Mapping[str, str], Mapping[str, Any]]:
        """Return the labels of its last run, and its state by the names of its slots, as JSON; both empty before it."""
        from deep_sessions import SessionNotFound, load_session

        try:
            found = self._loop.run(load_session(self._store, self.name))
        except SessionNotFound:
            return {}, {}
        return ({} if found.run is None else found.run.labels), found.root.slots

    def _has_message(self) -> bool:
        return self._loop.run(self._runner.next_message(self.name)) is not None

    def _end(self, step: Coroutine[Any, Any, Outcome]) -> str:
        outcome = self._loop.run(step)
        while outcome.status == "awaiting" and outcome.requests is not None:
            # Between runs, outside the loop, so that Ctrl-C ends a question like everything else.
            waiting = self._loop.run(questions(outcome.requests, self.backend))
            answers = self._approver.decide(outcome.requests, waiting)
            self._loop.run(self._runner.decide(self.name, answers, approval=outcome.requests.approval))
            outcome = self._loop.run(self._runner.resume(self.name, **self._how))
        self.finish_reason = outcome.finish_reason
        if outcome.error is not None:
            raise outcome.error
        return outcome.text or ""

    async def close(self) -> None:
        """Close the store."""
        await self._store.aclose()

    @property
    def backend(self) -> WorkspaceBackend | None:
        """The session's workspace; None before its first run."""
        return self._runner.backend(self.name)
