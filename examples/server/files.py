"""The files of a workspace, as the page lists them."""

from __future__ import annotations

from typing import Any

from pydantic_ai.workspaces import Workspace

__all__ = ["listing"]

MOST = 500
"""Files that are listed; of more, the page says that there are more."""


async def listing(workspace: Workspace) -> dict[str, Any]:
    """`{"files": [{"path", "size"}], "more": bool}`, directory by directory, those with a leading dot left out."""
    files: list[dict[str, Any]] = []
    waiting = [""]
    while waiting:
        directory = waiting.pop(0)
        for entry in await workspace.list_dir(directory or "."):
            path = f"{directory}/{entry.name}" if directory else entry.name
            if entry.name.startswith("."):
                continue
            if entry.is_dir:
                waiting.append(path)
            elif len(files) == MOST:
                return {"files": files, "more": True}
            else:
                files.append({"path": path, "size": entry.size})
    return {"files": files, "more": False}
