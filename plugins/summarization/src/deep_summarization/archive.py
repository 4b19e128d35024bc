"""Store the messages that a summary replaced, in the session's workspace."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter
from pydantic_ai.workspaces import Workspace

from .workspace_files import HISTORY, safe_name, store

__all__ = ["keep_cut"]

MOST_FILES = 1_000


async def keep_cut(workspace: Workspace, conversation: str, number: int, messages: Sequence[ModelMessage]) -> str:
    """Store messages as `.deep/history/<conversation>/NNN.json`, and return the path.

    `ModelMessagesTypeAdapter.validate_json` reads it. An existing file (of a fork of the
    conversation) is never overwritten: the next free number is used.

    Raises:
        WorkspaceError: there is no workspace, it has no files, or it is read-only.
        OSError: the backend could not write.
    """
    folder = f"{HISTORY}/{safe_name(conversation)}"
    data = ModelMessagesTypeAdapter.dump_json([*messages])
    for taken in range(MOST_FILES):
        name = f"{number + taken:03}.json"
        if not await workspace.exists(f"{folder}/{name}"):
            return await store(workspace, folder, name, data)
    raise FileExistsError(f"{folder} holds {MOST_FILES} files from {number:03}.json on: move or remove them")
