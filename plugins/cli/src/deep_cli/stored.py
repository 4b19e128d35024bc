"""Run a task in a stored session, for `deep run --session`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .approval import Approver, questions

if TYPE_CHECKING:
    from deep_sessions import Outcome, SessionStore
    from pydantic_ai import Agent
    from pydantic_ai.usage import UsageLimits
    from pydantic_ai.workspaces import WorkspaceBackend

    from deep_core import Kernel

__all__ = ["StoredSession"]


class StoredSession:
    """A session in a store.

    Args:
        name: the session's id.
        store: where it is, or will be.
        kernel: the kernel that made the agent.
        agent: made with `session_capabilities()`.
    """

    def __init__(self, name: str, store: SessionStore, kernel: Kernel, agent: Agent[Any, Any]) -> None:
        from deep_sessions import Runner

        self.name = name
        self._runner = Runner(agent, store, kernel=kernel)

    def converse(self, loop: asyncio.Runner, prompt: str | None, approver: Approver, limits: UsageLimits) -> str:
        """Run the agent, again with the answers while calls wait for them; return its final text.

        Calls that wait from an earlier run are asked about first.

        Args:
            loop: runs everything.
            prompt: the task; None continues the last run.
            approver: decides the calls that wait.
            limits: of each attempt.

        Raises:
            AgentError: another process runs the session, it has nothing to continue, or its store fails.
            Exception: what ended the run.
        """
        from deep_sessions import DecisionsPending

        def resume() -> str:
            return self._end(loop, lambda: self._runner.resume(self.name, usage_limits=limits), approver)

        def run(text: str) -> str:
            new = uuid.uuid4().hex
            return self._end(loop, lambda: self._runner.run(self.name, text, run_id=new, usage_limits=limits), approver)

        if prompt is None:
            return resume()
        try:
            return run(prompt)
        except DecisionsPending:
            resume()
            return run(prompt)

    def _end(self, loop: asyncio.Runner, start: Callable[[], Any], approver: Approver) -> str:
        outcome: Outcome = loop.run(start())
        while outcome.status == "awaiting" and outcome.requests is not None:
            # Between runs, outside the loop, so that Ctrl-C ends a question like everything else.
            waiting = loop.run(questions(outcome.requests, self.backend))
            answers = approver.decide(outcome.requests, waiting)
            loop.run(self._runner.decide(self.name, answers))
            outcome = loop.run(self._runner.resume(self.name))
        if outcome.error is not None:
            raise outcome.error
        return outcome.text or ""

    @property
    def backend(self) -> WorkspaceBackend | None:
        """The session's workspace; None before its first run."""
        return self._runner.backend(self.name)
