"""The slot through which a run, its tools and its subagents reach the journal of their session."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from deep_core import DeepAgentDeps, StateSlot

from .reading import TITLE as TITLE_NAME

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from .journal import Journal

__all__ = [
    "ASIDE",
    "CALL",
    "COMPACTION",
    "JOURNAL",
    "RESPONSE_KEY",
    "SEATS",
    "SESSION",
    "STEPS",
    "TITLE",
    "WINDOW",
    "Compaction",
    "Seats",
    "Steps",
    "Window",
    "session_in",
]

RESPONSE_KEY = "deep"
"""Where a response's metadata has its key."""


@dataclass(eq=False, repr=False)
class Steps:
    """What one agent's run has done so far.

    Attributes:
        run: the run, whatever the attempt.
        iterations: responses.
        rounds: responses with calls.
        calls: calls.
    """

    run: str = ""
    iterations: int = 0
    rounds: int = 0
    calls: int = 0

    def add(self, calls: int) -> None:
        """Count a response."""
        self.iterations += 1
        self.rounds += calls > 0
        self.calls += calls


@dataclass(eq=False, repr=False)
class Seats:
    """How many more calls of an attempt may execute now."""

    run: str | None
    free: asyncio.Semaphore


class Window(NamedTuple):
    """The window of a model.

    Attributes:
        tokens: its size.
        source: who says so: `server`, `list` (Pydantic AI's profile, genai-prices) or `overflow`; as `explained_window`
            returns it, also others.
    """

    tokens: int
    source: str


@dataclass(eq=False, repr=False)
class Compaction:
    """That the history of the request under way must become shorter, whatever its size.

    Attributes:
        keep: what the user wants to keep, in words; "" if nothing was said.
        by_hand: whether a person asks; otherwise the provider refused the request as too large.
        why_not: why the history stays as it is: the plugin that reduces it says so.
        over: by how many of the provider's tokens the request was too large; 0 if it did not say.
    """

    keep: str = ""
    by_hand: bool = False
    why_not: str = ""
    over: int = 0


def _none() -> Any:
    return None


JOURNAL: StateSlot[Journal | None] = StateSlot("session_journal", object, _none, persist=False, child="share")  # type: ignore[arg-type]
"""The journal of the run under way; None where nothing is stored."""
CALL: ContextVar[str] = ContextVar("deep_sessions_call", default="")
"""The key of the call that runs in this task; "" in none. It reaches subagents, and tools in threads."""
ASIDE: ContextVar[bool] = ContextVar("deep_sessions_aside", default=False)
"""Whether what runs in this task is not written: a subagent that outlives the call that started it."""
SESSION: ContextVar[DeepAgentDeps[Any] | None] = ContextVar("deep_sessions_session", default=None)
"""The session of the run in this task, where the agent's deps are its program's own (`SessionAgent`)."""


def session_in(ctx: RunContext[Any]) -> DeepAgentDeps[Any] | None:
    """Return the session of a run; None where nothing is stored."""
    deps: object = ctx.deps
    return cast("DeepAgentDeps[Any]", deps) if isinstance(deps, DeepAgentDeps) else SESSION.get()


STEPS: StateSlot[Steps] = StateSlot("session_steps", Steps, Steps, persist=False)
"""What the agent's run has done so far. The journal has it too, for the next process."""
TITLE: StateSlot[str] = StateSlot(TITLE_NAME, str, str)
"""The title that a person gave to the session; "" for none: it has the beginning of its first message then."""
SEATS: StateSlot[Seats | None] = StateSlot("session_seats", object, _none, persist=False)  # type: ignore[arg-type]
"""Limits the calls that execute at once."""
COMPACTION: StateSlot[Compaction | None] = StateSlot("compaction", object, _none, persist=False)  # type: ignore[arg-type]
"""That histories must become shorter now; None most of the time. Other plugins read it by its name."""
WINDOW: StateSlot[Window | None] = StateSlot("model_window", object, _none, persist=False)  # type: ignore[arg-type]
"""The window of the model of the request under way; None if nothing says it. Other plugins read it by its name."""
