"""The folders of the option `paths`, used where they are. Their content is not pinned, so no program of them starts."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from .folder import Folder
from .reading import read_folder

__all__ = ["folders_in_place"]


def folders_in_place(paths: Sequence[str], data: Path) -> Iterator[Folder]:
    """Read each folder. One that cannot be read is a folder with a problem.

    Args:
        paths: relative ones are to the working directory; `~` is expanded.
        data: the folder below which each has one for what its programs keep.
    """
    for path in paths:
        root = Path(path).expanduser()
        try:
            folder = read_folder(root.resolve(strict=True), data / root.resolve().name)
        except (OSError, ValueError) as error:
            why = f"{error}; fix the folder, or the option paths"
            yield Folder(root.name or path, "claude-plugin", root, source=path, problem=why)
            continue
        blocked = f"a folder used where it is starts no programs; deep folders add {shlex.quote(path)}"
        yield replace(folder, source=path, blocked=blocked)
