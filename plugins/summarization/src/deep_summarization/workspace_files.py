"""Files of this plugin in a session's workspace, below `.deep/`."""

from __future__ import annotations

import re

from pydantic_ai.workspaces import Workspace

__all__ = ["HISTORY", "RESULTS", "safe_name", "store"]

HISTORY = ".deep/history"
RESULTS = ".deep/results"


def safe_name(text: str, most: int = 80) -> str:
    """Make a file name from an id that a model or a provider may have chosen."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", text)[:most]
    return name or "_"


async def store(workspace: Workspace, folder: str, name: str, data: bytes) -> str:
    """Write a file, and return its path for tools.

    Keeps the folder out of version control: a conversation is not part of the user's project.

    Raises:
        WorkspaceError: there is no workspace, it has no files, or it is read-only.
        OSError: the backend could not write.
    """
    path = f"{folder}/{name}"
    root = "/".join(folder.split("/")[:2])
    if not await workspace.exists(f"{root}/.gitignore"):
        await workspace.write_bytes(f"{root}/.gitignore", b"*\n")
    await workspace.write_bytes(path, data)
    return path
