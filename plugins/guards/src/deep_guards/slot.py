"""What a session's last calls returned: of each session, so that one agent serves many."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from deep_core import StateSlot

if TYPE_CHECKING:
    from pydantic_ai import RunContext

    from deep_core import DeepAgentDeps

__all__ = ["WATCH", "Seen", "Watch", "current_warning"]


class Seen(NamedTuple):
    """One call: digests of tool and arguments, and of the result."""

    call: str
    result: str


@dataclass
class Watch:
    """What the guards know of a session.

    Attributes:
        calls: the last calls, oldest first.
        response: identifies the response whose results were counted last.
        loop: what the model is told of a loop; "" for nothing.
        budget: what the model is told of a limit; "" for nothing.
        run_id: the run that `budget` is about.
    """

    calls: deque[Seen] = field(default_factory=deque[Seen])
    response: object = None
    loop: str = ""
    budget: str = ""
    run_id: str | None = None


WATCH: StateSlot[Watch] = StateSlot("guards", Watch, Watch, persist=False)
"""Not persisted: a process that takes over counts anew. A subagent has its own."""


def current_warning(ctx: RunContext[DeepAgentDeps[Any]]) -> str | None:
    """Return what the model is told now; None for nothing."""
    watch = ctx.deps.state[WATCH]
    return "\n".join(filter(None, (watch.loop, watch.budget))) or None
