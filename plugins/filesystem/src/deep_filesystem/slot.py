"""Where a session keeps what its agent last saw of each file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from .seen import Seen

__all__ = ["FILES"]


def _type() -> type[dict[str, Seen]]:
    from .seen import Seen

    return dict[str, Seen]


def _files() -> dict[str, Seen]:
    return {}


# Not named "files": the `deps.files` of pydantic-deep were contents, and whoever still sets them must hear of it.
FILES: StateSlot[dict[str, Seen]] = StateSlot(name="last_seen", type=_type, default=_files)
"""The slot: real path -> what was last seen there. A subagent starts with an empty one: it has seen nothing."""
