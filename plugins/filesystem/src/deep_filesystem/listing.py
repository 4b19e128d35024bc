"""List the files of a workspace for people: what they wrote, without what tools leave behind."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass, field

from pydantic_ai.workspaces import FileEntry, Workspace, WorkspaceError

from .gitignore import Scope, enter, scope_above, split_ignored
from .walk import SKIPPED, go_on, is_printable

__all__ = ["FileList", "ListedFile", "list_files"]


@dataclass(frozen=True)
class ListedFile:
    """A file.

    Attributes:
        path: relative to the workspace's directory.
        size: in bytes; None if the backend does not report it.
    """

    path: str
    size: int | None


@dataclass
class FileList:
    """The files of a workspace.

    Attributes:
        files: directory by directory, sorted in each.
        more: whether there are others, or directories that were not entered.
    """

    files: list[ListedFile] = field(default_factory=list[ListedFile])
    more: bool = False


async def list_files(workspace: Workspace, *, most: int = 500) -> FileList:
    """List the files below the workspace's directory.

    It leaves out names with a leading dot, what git ignores, `__pycache__` and `node_modules`, names that are not
    Unicode, unreadable directories, and links to directories, which may form a cycle.

    Args:
        workspace: the workspace.
        most: most files to list, and directories to enter.

    Raises:
        OSError, WorkspaceError: the workspace's directory cannot be listed.
    """
    root = await workspace.realpath(await workspace.working_dir())
    found = FileList()
    directories = [("", await scope_above(workspace, root, root) or Scope())]
    for directory, above in directories:  # grows while it is walked
        absolute = posixpath.join(root, directory) if directory else root
        entries = await _entries(workspace, absolute, is_root=not directory)
        present = {entry.name for entry in entries}
        folder = absolute.rstrip("/") + "/"
        scope = await enter(workspace, folder, present, above)
        kept = [each for each in entries if not each.name.startswith(".") and is_printable(each.name)]
        sizes = {entry.name: entry.size for entry in kept if not entry.is_dir}
        below = sorted(entry.name for entry in kept if entry.is_dir and entry.name not in SKIPPED)
        names, _ = split_ignored(scope, folder, sorted(sizes), go_on, is_dir=False)
        below, _ = split_ignored(scope, folder, below, go_on, is_dir=True)
        room = most - len(found.files)
        found.files += [ListedFile(posixpath.join(directory, name), sizes[name]) for name in names[:room]]
        free = most - len(directories)
        directories += [(posixpath.join(directory, name), scope) for name in below[:free]]
        found.more |= len(names) > room or len(below) > free
    return found


async def _entries(workspace: Workspace, absolute: str, *, is_root: bool) -> Sequence[FileEntry]:
    try:
        if not is_root and await workspace.realpath(absolute) != absolute:
            return ()
        return await workspace.list_dir(absolute)
    except (OSError, ValueError, WorkspaceError):
        if is_root:
            raise
        return ()  # unreadable, removed, or a link that leads outside
