"""The slots of a session: the folders whose files apply, and what the present run read."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deep_core import StateSlot

if TYPE_CHECKING:
    from .folder import HookEntry

__all__ = [
    "BEFORE_COMPACTION",
    "FAILED_COMMANDS",
    "FOLDERS",
    "HEARD",
    "JUDGING",
    "READING",
    "VARIABLES",
    "Heard",
    "Reading",
]


@dataclass(eq=False, repr=False)
class Reading:
    """What the present run has read so far, so that a request reads only what may have changed.

    Attributes:
        run_id: of the run.
        responses: how many of the model's responses were searched for paths. Requests would not do as a count, as
            Pydantic AI joins adjoining ones.
        checked: the folders below the workspace that were searched for files.
        above: the folders above the workspace that belong to its project; None before the first search.
        text: the section's text.
    """

    run_id: str | None = None
    responses: int = 0
    checked: set[str] = field(default_factory=set[str])
    above: list[str] | None = None
    text: str | None = None


@dataclass(eq=False, repr=False)
class Heard:
    """What the hooks of folders said around the runs of this process.

    Attributes:
        started: whether they were told that the session starts.
        session: what they said then.
        prompt: what they said to the last message.
        continued: the run that one of them did not let end.
        late: what those said that run beside the runs, for the next message.
        spent: those that run once, and have.
        stopped: why one of them stops the agent after a call; "" if none does.
    """

    started: bool = False
    session: str = ""
    prompt: str = ""
    continued: str | None = None
    late: list[str] = field(default_factory=list[str])
    spent: set[HookEntry] = field(default_factory=set["HookEntry"])
    stopped: str = ""


FOLDERS: StateSlot[list[str]] = StateSlot("folder_instructions", list[str], list[str])
"""The slot: folders below the workspace whose files apply, relative to it. Stored, as a compaction removes the calls
that named them."""
READING: StateSlot[Reading] = StateSlot("folder_reading", Reading, Reading, persist=False)
HEARD: StateSlot[Heard] = StateSlot("folder_hooks", Heard, Heard, persist=False)
"""Not stored: a process that continues a session starts it again, as `resume`."""


def _nothing() -> Any:
    return None


BEFORE_COMPACTION: StateSlot[Any] = StateSlot("before_compaction", object, _nothing, persist=False)
"""What deep-summarization asks before it writes a summary: `async (ctx, by_hand, keep) -> (why not, what to keep)`."""
VARIABLES: StateSlot[dict[str, str]] = StateSlot(
    "command_variables", dict[str, str], dict[str, str], child="share", persist=False
)
"""What hooks of `SessionStart` set for commands; deep-filesystem gives it to those that it runs."""
FAILED_COMMANDS: StateSlot[set[str]] = StateSlot("failed_commands", set[str], set[str], persist=False)
"""Calls whose command exited with another number than 0: deep-filesystem names them, and their results are texts as
every other."""
JUDGING: ContextVar[bool] = ContextVar("deep_folders_judging", default=False)
"""Whether the run in this task answers a question of a hook: its end is nothing to ask about."""
