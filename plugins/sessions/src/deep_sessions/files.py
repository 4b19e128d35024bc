"""The states of a workspace's files, in a git repository of their own: saved with a session, restored by a rewind."""

from __future__ import annotations

import asyncio
import hashlib
import os
from asyncio.subprocess import DEVNULL, PIPE
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json, to_json

from .errors import AgentError
from .reading import entries_of
from .removing import lease_of
from .store import Commit, Entry, NewEntry, SessionStore

__all__ = ["FileHistory", "RestoredFiles", "restore_files", "save_files"]

KIND = "files"
"""The kind of an entry that names a saved state. A fold skips it."""
SETTINGS = {"core.autocrlf": "false", "core.hooksPath": os.devnull, "core.safecrlf": "false", "gc.auto": "0"}
NESTED = "160000"
"""The mode of a folder with a git repository of its own."""


@dataclass(frozen=True)
class RestoredFiles:
    """What a restoration did. Paths are relative to the workspace.

    Attributes:
        changed: the files that were written or removed.
        left: what cannot be restored and stays as it is: files and folders that `.gitignore` names, and folders with a
            git repository of their own.
    """

    changed: tuple[str, ...]
    left: tuple[str, ...]


class FileHistory:
    """The states of one workspace. Needs `git`; leaves a git repository of the workspace's own alone.

    Args:
        folder: the workspace.
        repository: where the states are kept; it is created. Several workspaces can share one.
    """

    def __init__(self, folder: str | os.PathLike[str], repository: str | os.PathLike[str]) -> None:
        self.folder, self.repository = Path(folder).absolute(), Path(repository).absolute()
        if self.repository.is_relative_to(self.folder):
            raise AgentError(f"{self.repository} is in the workspace whose states it keeps: name a folder outside")
        self._index = self.repository / f"index-{hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]}"

    async def save(self) -> str:
        """Keep the files as they are now; return the state's id."""
        if not (self.repository / "HEAD").exists():
            self.repository.mkdir(mode=0o700, parents=True, exist_ok=True)
            await self._git("init", "--quiet", "--bare", ".", work_tree=False)
        await self._git("add", "--all")
        return (await self._git("write-tree"))[0]

    async def restore(self, state: str) -> RestoredFiles:
        """Bring back the files of a state. What they replace must have been saved."""
        now = await self.save()
        changed = await self._git("diff-tree", "-r", "-z", "--name-only", "--no-renames", now, state)
        await self._git("read-tree", "--reset", "-u", state)
        ignored = await self._git("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
        tree = [line.partition("\t") for line in await self._git("ls-tree", "-r", "-z", now)]
        nested = [f"{path}/" for about, _, path in tree if about.startswith(NESTED)]
        return RestoredFiles(
            tuple(path for path in changed if f"{path}/" not in nested), tuple(sorted({*ignored, *nested}))
        )

    async def _git(self, *arguments: str, work_tree: bool = True) -> list[str]:
        """Run git; return the lines of its output, or its items where they end with NUL."""
        settings = [option for name, value in SETTINGS.items() for option in ("-c", f"{name}={value}")]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        if work_tree:
            environment |= {"GIT_DIR": str(self.repository), "GIT_WORK_TREE": str(self.folder)}
            environment["GIT_INDEX_FILE"] = str(self._index)
        command = ["git", *settings, *arguments]
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                cwd=self.folder if work_tree else self.repository,
                env=environment,
                stdin=DEVNULL,
                stdout=PIPE,
                stderr=PIPE,
            )
        except FileNotFoundError as error:
            what = "git is not installed" if self.folder.is_dir() else f"there is no folder {self.folder}"
            raise AgentError(f"the files of a session cannot be kept: {what}") from error
        output, problem = await process.communicate()
        if process.returncode:
            said = problem.decode("utf-8", "replace").strip() or f"exit status {process.returncode}"
            raise AgentError(f"git {arguments[0]} in {self.folder}: {said}")
        text = os.fsdecode(output)
        return text.rstrip("\0").split("\0") if "\0" in text else text.split("\n")[:-1]


async def save_files(store: SessionStore, session_id: str, history: FileHistory) -> int:
    """Keep the workspace's files as they are at this point of the session, for a later rewind or fork.

    Args:
        store: the store.
        session_id: the session.
        history: of its workspace.

    Returns:
        The number of the entry that says so.

    Raises:
        SessionBusy: the session is running.
        AgentError: git is not installed, or fails.
    """
    async with lease_of(store, session_id) as lease:
        return await store.commit(lease, Commit([_entry(await history.save())]))


async def restore_files(
    store: SessionStore, session_id: str, history: FileHistory, *, at: int, of: str | None = None
) -> RestoredFiles:
    """Bring the workspace's files back to the last state that was saved up to an entry. What they replace is saved.

    Args:
        store: the store.
        session_id: the session whose workspace it is.
        history: of that workspace, with the repository in which the state was saved.
        at: the number of the entry.
        of: the session that has this entry, if it is another: the one that was forked.

    Raises:
        SessionBusy: the session is running.
        AgentError: no state was saved up to that entry, or git fails.
    """
    async with lease_of(store, session_id) as lease:
        found = [from_json(e.data)["state"] async for e in entries_of(store, of or session_id) if _is_state(e, at)]
        if not found:
            raise AgentError(
                f"session {of or session_id!r} has no saved files up to entry {at}: save_files() saves them"
            )
        before = await history.save()
        await store.commit(lease, Commit([_entry(before)]))
        restored = await history.restore(found[-1])
        await store.commit(lease, Commit([_entry(found[-1])]))
        return restored


def _entry(state: str) -> NewEntry:
    return NewEntry(KIND, to_json({"state": state}))


def _is_state(entry: Entry, at: int) -> bool:
    return entry.kind == KIND and entry.seq <= at
