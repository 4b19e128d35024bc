"""The files that a session stores in its workspace: one folder a session, limited in size, removed with the session."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from collections import deque
from datetime import UTC, datetime, timedelta
from typing import Any, cast

from pydantic_ai.tools import RunContext
from pydantic_ai.workspaces import Workspace

from deep_core import DeepAgentDeps
from deep_core.plugin_api import folder_name

from .options import StoredLimits, SummarizationOptions
from .slot import STORED_FILES

__all__ = ["ROOT", "StoredFiles", "files_of", "remove_stored_files", "stored_files"]

ROOT = ".deep/sessions"
TIME = "%Y%m%dT%H%M%S%f"
"""How a file's name begins: names sort by age, and need no clock of the workspace."""
PARTIAL = ".deep-"
"""How the name of a file begins that a local backend has not yet written to its end, or left so when it was killed."""
KEPT_SHARE = 0.75
"""Share of the limit that stays when the oldest files are removed, so that not every file lists the folder again."""


class StoredFiles:
    """The stored files of one session.

    Another process may use the same folder: no two files have the same name, and a file that the other process removed
    is no error. Together, the two may exceed the limit by what they stored since each of them listed the folder.

    Args:
        session_id: the session, which names the folder.

    Attributes:
        folder: the path of the folder.
        limits: how much, and how long.
    """

    def __init__(self, session_id: str, limits: StoredLimits | None = None) -> None:
        self.folder = f"{ROOT}/{folder_name(session_id)}"
        self.limits = limits or StoredLimits()
        self._files: deque[tuple[str, int]] | None = None  # oldest first; None before the first file
        self._bytes = 0

    async def store(self, workspace: Workspace, what: str, data: bytes, suffix: str = "txt") -> str:
        """Write a file, remove the oldest ones above the limit, and return its path for tools.

        Keeps the folder out of version control: a conversation is not part of the user's project.

        Args:
            workspace: the session's workspace.
            what: a word for the name; a model or a provider may have chosen it.
            data: the content.
            suffix: the file's suffix.

        Raises:
            ValueError: the file alone exceeds the limit.
            WorkspaceError: there is no workspace, it has no files, or it is read-only.
            OSError: the backend could not write.
        """
        limit = self.limits.bytes
        if len(data) > limit:
            raise ValueError(f"{len(data):,} bytes are more than the {limit:,} that a session may store")
        if self._files is None:
            await _remove_old(workspace, self.limits.days, self.folder.rpartition("/")[2])
            await self._list(workspace)
            if not await workspace.exists(f"{ROOT}/.gitignore"):
                await workspace.write_bytes(f"{ROOT}/.gitignore", b"*\n")
        if self._bytes + len(data) > limit:
            await self._list(workspace)  # another process may have added or removed some
            await self._make_room(workspace, len(data))
        name = f"{datetime.now(UTC):{TIME}}-{_safe(what, 40)}-{hashlib.sha256(data).hexdigest()[:8]}.{suffix}"
        await workspace.write_bytes(f"{self.folder}/{name}", data)
        self._add(name, len(data))
        return f"{self.folder}/{name}"

    async def remove(self, workspace: Workspace) -> None:
        """Remove them all."""
        self._files, self._bytes = None, 0
        with contextlib.suppress(FileNotFoundError):
            await workspace.remove(self.folder)

    def _add(self, name: str, size: int) -> None:
        files = self._files = deque[tuple[str, int]]() if self._files is None else self._files
        files.append((name, size))
        self._bytes += size

    async def _list(self, workspace: Workspace) -> None:
        entries = await _entries(workspace, self.folder)  # some are another process's, not written to the end
        found = sorted((entry.name, entry.size or 0) for entry in entries if _is_ours(entry.name))
        self._files, self._bytes = deque(found), sum(size for _, size in found)

    async def _make_room(self, workspace: Workspace, size: int) -> None:
        while self._files and self._bytes + size > max(size, self.limits.bytes * KEPT_SHARE):
            name, freed = self._files.popleft()
            self._bytes -= freed
            with contextlib.suppress(FileNotFoundError):  # another process removed it
                await workspace.remove(f"{self.folder}/{name}")


def stored_files(ctx: RunContext[Any], limits: StoredLimits | None) -> StoredFiles:
    """Return the stored files of a run's session; of its conversation in agents without sessions.

    Args:
        ctx: the run.
        limits: those of the run's agent; None keeps the session's.
    """
    deps: object = ctx.deps
    files = (
        files_of(cast("DeepAgentDeps[Any]", deps))
        if isinstance(deps, DeepAgentDeps)
        else StoredFiles(ctx.conversation_id or ctx.run_id or "conversation")
    )
    files.limits = limits or files.limits
    return files


def files_of(deps: DeepAgentDeps[Any]) -> StoredFiles:
    """Return the stored files of a session. Its subagents share them."""
    known = deps.state[STORED_FILES]
    if deps.session_id not in known:
        kernel = deps.state.bound
        ours = kernel is not None and "summarization" in kernel.active
        options = kernel.context("summarization").options(SummarizationOptions) if kernel and ours else None
        known[deps.session_id] = StoredFiles(deps.session_id, options.stored_limits if options else StoredLimits())
    return known[deps.session_id]


async def remove_stored_files(deps: DeepAgentDeps[Any]) -> None:
    """Remove what a session stored in its workspace, because the session ends. Needs the session's `backend`."""
    if deps.backend is not None:
        backend = deps.backend
        await files_of(deps).remove(backend if isinstance(backend, Workspace) else Workspace(backend))


async def _remove_old(workspace: Workspace, days: int, own: str) -> None:
    """Remove the folders of other sessions whose newest file is older; leave what this plugin did not make."""
    oldest = f"{datetime.now(UTC) - timedelta(days=days):{TIME}}"
    for folder in await _entries(workspace, ROOT):
        path = posixpath.join(ROOT, folder.name)
        if not folder.is_dir or folder.name == own or await workspace.realpath(path) != await _real(workspace, path):
            continue
        names = [entry.name for entry in await _entries(workspace, path) if not entry.name.startswith(PARTIAL)]
        if names and all(map(_is_ours, names)) and max(names) < oldest:
            with contextlib.suppress(OSError):  # another process removes it, or this one may not
                await workspace.remove(path)


async def _real(workspace: Workspace, path: str) -> str:
    """The path below the real working directory: equal to the real path unless a link is on the way."""
    return posixpath.join(await workspace.realpath(await workspace.working_dir()), path)


async def _entries(workspace: Workspace, folder: str) -> list[Any]:
    try:
        return [*await workspace.list_dir(folder)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _is_ours(name: str) -> bool:
    return re.match(r"\d{8}T\d{12}-", name) is not None


def _safe(text: str, most: int) -> str:
    """Make a part of a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", text)[:most] or "_"
