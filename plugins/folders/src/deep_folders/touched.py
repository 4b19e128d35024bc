"""Read from a call's arguments where the agent works, and whether the call may have changed instructions."""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from typing import Any

__all__ = ["folders_of", "may_have_changed"]

PATHS = ("path", "file_path")
"""The arguments that name a file or a folder: of the file tools, and of most others' tools."""
FOREIGN = frozenset(("node_modules", "site-packages", "vendor", "third_party"))
"""Folders of code that others wrote: its instructions are not this project's."""
DEEPEST = 12
"""Most levels of folders below the workspace."""


def may_have_changed(arguments: dict[str, Any], names: Collection[str]) -> bool:
    """Whether a call with these arguments may have written a file of these names: it names one, or is a command."""
    if "command" in arguments:
        return True
    for value in arguments.values():
        if isinstance(value, str):
            for name in names:
                if name in value:
                    return True
    return False


def folders_of(arguments: dict[str, Any], root: str) -> list[str]:
    """Return the folders below `root` that lead to the paths in a call's arguments, each relative to `root`.

    The last one may be the path itself: whether it is a folder is not known here. Hidden folders and code of others
    are not the project's word.
    """
    found: list[str] = []
    for key in PATHS:
        value = arguments.get(key)
        if not isinstance(value, str) or "\0" in value:
            continue
        path = posixpath.normpath(posixpath.join(root, value))
        prefix = root.rstrip("/") + "/"
        if not path.startswith(prefix):
            continue
        folder = ""
        for name in path.removeprefix(prefix).split("/")[:DEEPEST]:
            if name.startswith(".") or name in FOREIGN:
                break
            folder = posixpath.join(folder, name)
            found.append(folder)
    return found
