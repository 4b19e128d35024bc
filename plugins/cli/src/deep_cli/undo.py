"""What the tools of a chat changed in files, turn by turn, so that it can be shown and taken back."""

from __future__ import annotations

import contextlib
import posixpath
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .differences import file_diff

if TYPE_CHECKING:
    from pydantic_ai.workspaces import Workspace, WorkspaceBackend

__all__ = ["FileLog", "TakenBack", "changed_path"]

LARGEST = 5_000_000
"""Bytes of a file that can be taken back."""


@dataclass
class _Change:
    """One file in one turn: its bytes before the first call and after the last; None where it did not exist.

    Attributes:
        path: as the first call named it.
        folders: those above it that did not exist, the deepest first.
    """

    path: str
    before: bytes | None
    after: bytes | None
    folders: tuple[str, ...] = ()


@dataclass
class _Turn:
    entry: int
    files: dict[str, _Change] = field(default_factory=dict[str, _Change])


@dataclass(frozen=True)
class TakenBack:
    """What taking back did.

    Attributes:
        entry: the entry of the journal before the first of the turns; 0 if the chat had none.
        restored: the files that changed back to what they were.
        left: files that something else changed since, or that cannot be written: they stay.
    """

    entry: int
    restored: tuple[str, ...]
    left: tuple[str, ...]


def changed_path(args: Mapping[str, Any]) -> str | None:
    """Return the file that a call with these arguments changes, whatever plugin has the tool; None for other calls."""
    path = args.get("path", args.get("file_path"))
    changes = isinstance(args.get("content"), str) or isinstance(args.get("new_string"), str)
    return path if isinstance(path, str) and changes else None


class FileLog:
    """The files that tools changed in this process. What commands change is not in it."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = []

    def __len__(self) -> int:
        return len(self._turns)

    def begin(self, entry: int) -> None:
        """A turn begins, after this entry of the journal."""
        self._turns.append(_Turn(entry))

    def drop(self) -> None:
        """Drop the last turn: it did not begin."""
        if self._turns and not self._turns[-1].files:
            self._turns.pop()

    def clear(self) -> None:
        """Forget all turns: another chat begins."""
        self._turns.clear()

    async def before(self, path: str, backend: WorkspaceBackend) -> None:
        """Keep a file before a call changes it."""
        key = await _key(path, backend)
        if not self._turns or key in self._turns[-1].files:
            return
        found = await _read(path, backend)
        if not isinstance(found, _Unreadable):
            folders = await _missing_above(path, backend) if found is None else ()
            self._turns[-1].files[key] = _Change(path, found, found, folders)

    async def after(self, path: str, backend: WorkspaceBackend) -> None:
        """Keep how a call left a file."""
        change = self._turns[-1].files.get(await _key(path, backend)) if self._turns else None
        if change is not None:
            found = await _read(path, backend)
            change.after = change.after if isinstance(found, _Unreadable) else found

    async def take_back(self, count: int, backend: WorkspaceBackend) -> TakenBack:
        """Restore the files as they were before the last turns, and remove folders that they made and are empty then.

        A file that something else changed stays. One that no call changed, or that is as it was already, is not named.
        """
        first: dict[str, bytes | None] = {}
        last: dict[str, bytes | None] = {}
        names: dict[str, str] = {}
        left: dict[str, str] = {}
        entry = 0
        for _ in range(min(count, len(self._turns))):
            turn = self._turns.pop()
            entry = turn.entry
            changed = {key: change for key, change in turn.files.items() if change.before != change.after}
            for key, change in changed.items():
                names.setdefault(key, change.path)
                now = await _read(change.path, backend)
                if key in left or isinstance(now, _Unreadable) or now != change.after:
                    left[key] = change.path
                elif await _put_back(change, backend):
                    first.setdefault(key, now)
                    last[key] = change.before
                else:
                    left[key] = change.path
            made = {folder for change in changed.values() for folder in change.folders}
            for folder in sorted(made, key=len, reverse=True):
                await _remove_empty(folder, backend)
        restored = [names[key] for key in last if key not in left and last[key] != first[key]]
        return TakenBack(entry, tuple(restored), tuple(left.values()))

    async def diff(self, backend: WorkspaceBackend) -> list[str]:
        """Return the lines of a diff of all files: before their first turn, and now."""
        first: dict[str, bytes | None] = {}
        for turn in self._turns:
            for change in turn.files.values():
                first.setdefault(change.path, change.before)
        lines: list[str] = []
        for path, before in first.items():
            now = await _read(path, backend)
            if not isinstance(now, _Unreadable):
                lines += file_diff(path, before, now, "before", "now")
        return lines


class _Unreadable:
    pass


async def _key(path: str, backend: WorkspaceBackend) -> str:
    """Return what all names of a file have in common."""
    from pydantic_ai.workspaces import WorkspaceError

    workspace = _workspace(backend)
    try:
        return await workspace.realpath(await workspace.resolve(path))
    except (OSError, ValueError, WorkspaceError):
        return path


async def _missing_above(path: str, backend: WorkspaceBackend) -> tuple[str, ...]:
    """List the folders above a file that do not exist, the deepest first."""
    from pydantic_ai.workspaces import WorkspaceError

    workspace = _workspace(backend)
    missing: list[str] = []
    try:
        folder = posixpath.dirname(await workspace.resolve(path))
        while folder.strip("/") and not await workspace.exists(folder):
            missing.append(folder)
            folder = posixpath.dirname(folder)
    except (OSError, ValueError, WorkspaceError):
        return ()
    return tuple(missing)


async def _put_back(change: _Change, backend: WorkspaceBackend) -> bool:
    """Restore one file; False if it cannot be written."""
    from pydantic_ai.workspaces import WorkspaceError

    try:
        if change.before is None:
            await _workspace(backend).remove(change.path)
        else:
            await _workspace(backend).write_bytes(change.path, change.before)
    except (OSError, ValueError, WorkspaceError):
        return False
    return True


async def _remove_empty(folder: str, backend: WorkspaceBackend) -> None:
    from pydantic_ai.workspaces import WorkspaceError

    workspace = _workspace(backend)
    with contextlib.suppress(OSError, ValueError, WorkspaceError):  # it is gone, or has to stay
        if not await workspace.list_dir(folder):
            await workspace.remove(folder)


async def _read(path: str, backend: WorkspaceBackend) -> bytes | _Unreadable | None:
    """Return a file's bytes; None if it does not exist."""
    from pydantic_ai.workspaces import WorkspaceError

    try:
        data = await _workspace(backend).read_bytes(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, WorkspaceError):
        return _Unreadable()
    return data if len(data) <= LARGEST else _Unreadable()


def _workspace(backend: WorkspaceBackend) -> Workspace:
    from pydantic_ai.workspaces import Workspace

    return backend if isinstance(backend, Workspace) else Workspace(backend)
