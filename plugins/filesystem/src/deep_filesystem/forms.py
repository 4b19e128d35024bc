"""Take the two forms of accents for each other, as macOS does: a model cannot choose which one it writes."""

from __future__ import annotations

import unicodedata

from pydantic_ai.workspaces import Workspace, WorkspaceError

__all__ = ["FAILURES", "exists", "in_other_form"]

FAILURES = (OSError, ValueError, WorkspaceError)
"""What a backend raises for a path that is missing, refused or unreadable."""


async def in_other_form(workspace: Workspace, path: str, root: str) -> str:
    """Return the existing path that differs from this absolute one only in the form of its accents, or this one.

    An accented letter is one character (NFC) or two (NFD).
    """
    start = root.rstrip("/") + "/"
    if path.isascii() or not path.startswith(start) or await exists(workspace, path):
        return path
    at = start
    names = path.removeprefix(start).split("/")
    for index, name in enumerate(names):
        if not name.isascii() and not await exists(workspace, at + name):
            wanted = unicodedata.normalize("NFC", name)
            alike = [each for each in await _names(workspace, at) if unicodedata.normalize("NFC", each) == wanted]
            if len(alike) != 1:
                return path
            name = alike[0]
        at += name + ("/" if index + 1 < len(names) else "")
    return at


async def exists(workspace: Workspace, path: str) -> bool:
    """Whether the path exists; False if the workspace cannot tell."""
    try:
        return await workspace.exists(path)
    except FAILURES:
        return False


async def _names(workspace: Workspace, folder: str) -> list[str]:
    try:
        return [entry.name for entry in await workspace.list_dir(folder)]
    except FAILURES:
        return []
