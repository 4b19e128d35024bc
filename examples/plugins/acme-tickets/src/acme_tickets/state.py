"""What each session knows of the tickets."""

from __future__ import annotations

from typing import Any

from deep_core import DeepAgentDeps, StateSlot
from pydantic_ai import RunContext

__all__ = ["OPEN", "open_tickets"]

MOST = 10

# Sessions are stored under this name, so do not change it after the first release.
OPEN = StateSlot("tickets_open", dict[str, str], dict)
"""Number -> title of each open ticket, as a call of this session last saw it."""


def open_tickets(ctx: RunContext[DeepAgentDeps[Any]]) -> str | None:
    """Return the section's text; None before the first call."""
    known = ctx.deps.state[OPEN]
    if not known:
        return None
    lines = [f"#{number} {title}" for number, title in [*known.items()][:MOST]]
    more = [f"and {len(known) - MOST} more"] if len(known) > MOST else []
    return "\n".join(["Open tickets:", *lines, *more])
