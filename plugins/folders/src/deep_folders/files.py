"""Find and read files of instructions through the session's workspace."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai.workspaces import Workspace

__all__ = ["InstructionsFile", "decode", "folders_above", "read_folder"]

MOST_BYTES = 262_144
"""Larger files are named and not read."""
MOST_ABOVE = 20
"""Most folders above the workspace that are searched for the project's root."""
FAILURES = (OSError, ValueError, RuntimeError)
"""What a backend raises for a path that is missing, refused or unreadable; a WorkspaceError is a RuntimeError."""


@dataclass(frozen=True)
class InstructionsFile:
    """A file of instructions.

    Attributes:
        path: absolute.
        text: its content.
        size: in bytes, if it was too large to read; else None.
    """

    path: str
    text: str = ""
    size: int | None = None


async def read_folder(workspace: Workspace, folder: str, names: Sequence[str]) -> InstructionsFile | None:
    """Read the first of these files in a folder that says something; None if it has none that can be read."""
    for name in names:
        path = posixpath.join(folder, name)
        try:
            entry = await workspace.stat(path)
            if entry.is_dir:
                continue
            if entry.size is not None and entry.size > MOST_BYTES:
                return InstructionsFile(path, size=entry.size)
            data = await workspace.read_bytes(path)
        except FAILURES:
            continue
        if len(data) > MOST_BYTES:
            return InstructionsFile(path, size=len(data))
        if text := decode(data):  # an empty file has no instructions, and another one may
            return InstructionsFile(path, text)
    return None


def decode(data: bytes) -> str:
    """Decode a file of instructions, however damaged: as `read_file` does, where deep-filesystem is installed."""
    try:
        from deep_filesystem import decode_text
    except ImportError:
        return data.decode("utf-8-sig", errors="replace").strip()
    return decode_text(data).strip()


async def folders_above(workspace: Workspace, root: str) -> list[str]:
    """Return the folders above `root` that belong to its project, outermost first.

    The project begins at the nearest folder with `.git`. Without one, or where the workspace shows nothing above its
    root, there is none.
    """
    above: list[str] = []
    folder = root
    for _ in range(MOST_ABOVE):
        try:
            if await workspace.exists(posixpath.join(folder, ".git")):
                return above[::-1]
        except FAILURES:
            return []
        parent = posixpath.dirname(folder)
        if parent == folder:
            break
        folder = parent
        above.append(folder)
    return []
