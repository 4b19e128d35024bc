"""The state of sessions in an agent whose deps are not `DeepAgentDeps`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from deep_core import SessionState

if TYPE_CHECKING:
    from pydantic_ai import RunContext

__all__ = ["Sessions"]

MOST = 1_000
"""Maximum conversations to remember; the one unused for longest is forgotten."""


class Sessions:
    """The sessions of one toolset. A session in deps keeps its own state; others are known by their conversation."""

    def __init__(self) -> None:
        self._states: OrderedDict[str | None, SessionState] = OrderedDict()
        self._lock = threading.Lock()  # one agent serves several event loops

    def state(self, ctx: RunContext[Any]) -> SessionState:
        """Return the state of the run's session, which other conversations never see."""
        own = getattr(ctx.deps, "state", None)
        if isinstance(own, SessionState):
            return own
        key = ctx.conversation_id or ctx.run_id  # of messages without a conversation: this run only
        with self._lock:
            state = self._states.setdefault(key, SessionState())
            self._states.move_to_end(key)
            while len(self._states) > MOST:
                self._states.popitem(last=False)
        return state
