"""List the files of a workspace for the page."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import Any

from pydantic_ai.workspaces import FileEntry, Workspace, WorkspaceError

__all__ = ["listing"]

MOST = 500
"""Maximum files to list, and directories to search; above it the page says that there are more."""


async def listing(workspace: Workspace) -> dict[str, Any]:
    """Return `{"files": [{"path", "size"}], "more": bool}`, directory by directory.

    Skips names with a leading dot, names that are not Unicode, unreadable directories, and links to directories,
    which may form a cycle.
    """
    root = await workspace.realpath(".")
    files: list[dict[str, Any]] = []
    directories = [""]
    more = False
    for directory in directories:  # grows while it is walked
        for entry in await _entries(workspace, root, directory):
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.name.startswith(".") or not _is_unicode(entry.name):
                continue
            if len(directories if entry.is_dir else files) == MOST:
                more = True
            elif entry.is_dir:
                directories.append(path)
            else:
                files.append({"path": path, "size": entry.size})
    return {"files": files, "more": more}


async def _entries(workspace: Workspace, root: str, directory: str) -> Sequence[FileEntry]:
    absolute = posixpath.join(root, directory) if directory else root
    try:
        if await workspace.realpath(absolute) != absolute:
            return ()
        return await workspace.list_dir(absolute)
    except (OSError, ValueError, WorkspaceError):
        if not directory:
            raise
        return ()  # unreadable, removed, or a link that leads outside


def _is_unicode(name: str) -> bool:
    # Undecodable names are surrogates in Python and U+FFFD in a command's output.
    return "\ufffd" not in name and not any("\ud800" <= char <= "\udfff" for char in name)
