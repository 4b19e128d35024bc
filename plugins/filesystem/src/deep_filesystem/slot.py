"""The session's record of what its agent last saw of each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from .seen import Seen

__all__ = ["COMMANDS", "FILES"]


def _type() -> type[dict[str, Seen]]:
    from .seen import Seen

    return dict[str, Seen]


def _files() -> dict[str, Seen]:
    return {}


# Not "files": the `deps.files` of pydantic-deep held contents, and code that still sets it must get an error.
FILES: StateSlot[dict[str, Seen]] = StateSlot(name="last_seen", type=_type, default=_files)
"""The slot: real path -> what the agent last saw. A subagent starts with an empty one."""

COMMANDS: StateSlot[dict[str, int]] = StateSlot("commands_read", dict[str, int], dict, child="share")
"""The slot: commands of the session that stay -> how many bytes of its output the model has read."""
