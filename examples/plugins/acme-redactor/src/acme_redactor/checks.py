"""A check of every tool call before it runs, in the agent and in its subagents."""

from __future__ import annotations

from deep_core import Deny, ToolCall

from .options import RedactorOptions

__all__ = ["check"]

WAYS_OUT = {"network", "execute"}


def check(call: ToolCall, options: RedactorOptions) -> Deny | None:
    """Deny a call that would send what the option `confidential` matches. None means no opinion."""
    if WAYS_OUT.isdisjoint(call.tags) or not options.confidential.search(str(dict(call.args))):
        return None
    # The model reads the reason. Return Ask("…") to let a person decide.
    return Deny("the arguments contain confidential data")
