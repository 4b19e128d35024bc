"""Read a folder in whichever format it has."""

from __future__ import annotations

from pathlib import Path

from .agent_plugin import read_agent_plugin
from .claude_plugin import MANIFEST, is_claude_plugin, read_claude_plugin
from .folder import Folder

__all__ = ["read_folder"]


def read_folder(root: Path, data: Path, name: str = "") -> Folder:
    """Read a folder.

    A folder in both formats is read as a plugin of Claude Code, which can hold more.

    Args:
        root: the folder, resolved.
        data: the folder for what its programs keep.
        name: of a folder that does not say its own.

    Raises:
        OSError: it cannot be read.
        ValueError: it has neither format; the message says why.
    """
    if not (root / MANIFEST).exists():
        if (root / "plugin.json").exists():
            return read_agent_plugin(root, data)
        if not is_claude_plugin(root):
            raise ValueError(f"{root} has no plugin.json, no {MANIFEST}, and no skills, commands, agents or hooks")
    return read_claude_plugin(root, data, name)
