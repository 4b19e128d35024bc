"""What sessions stored in the workspace below `.deep/sessions`, one folder a session.

deep-summarization does, and commands that stay have their logs there.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from pydantic_ai.workspaces import Workspace

from deep_core import DeepAgentDeps
from deep_core.plugin_api import folder_name

__all__ = ["ROOT", "is_stored", "of_other_sessions", "stored_files"]

ROOT = ".deep/sessions"
_STORED = re.compile(r"(?:^|/)\.deep/sessions/([^/]+)")


class StoredFiles(Protocol):
    """The stored files of a session, as deep-summarization keeps them."""

    folder: str

    async def store(self, workspace: Workspace, what: str, data: bytes) -> str:
        """Write a file and return its path."""
        ...


def stored_files(deps: object) -> StoredFiles | None:
    """Return the stored files of a session; None without deep-summarization."""
    if not isinstance(deps, DeepAgentDeps) or deps.state.bound is None:
        return None
    method = deps.state.bound.session_methods.get("stored_files")
    return method(deps) if method else None


def of_other_sessions(deps: object) -> Callable[[str], bool]:
    """Return a function that tells whether a path belongs to another session: such are neither listed nor searched."""
    own = folder_name(deps.session_id) if isinstance(deps, DeepAgentDeps) else None

    def is_of_another(path: str) -> bool:
        found = _STORED.search(path)
        return found is not None and found[1] != own

    return is_of_another


def is_stored(path: str) -> bool:
    """Whether a path is that of a stored file, existing or not."""
    return _STORED.search(path) is not None
