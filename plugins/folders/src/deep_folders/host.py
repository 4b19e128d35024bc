"""Read files of instructions above a workspace that is a directory of this machine."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path

from .files import MOST_ABOVE, MOST_BYTES, InstructionsFile, decode

__all__ = ["HOST", "files_above"]

HOST = ("local", "deep-local", "deep-sandbox")
"""Providers of workspaces whose id is a directory of this machine."""


def files_above(workspace: str, names: Sequence[str]) -> list[InstructionsFile]:
    """Read the first of these files in each folder above, outermost first. Blocking: call it in a thread.

    The project begins at the nearest folder with `.git`, below the home directory. Without one there is none.
    """
    start = Path(workspace)
    above: list[Path] = []
    for folder in (start, *start.parents[:MOST_ABOVE]):
        if folder == Path.home():
            break
        if folder != start:
            above.insert(0, folder)
        if (folder / ".git").exists():
            files = [_read(inside, folder, names) for inside in above]
            return [file for file in files if file is not None]
    return []


def _read(folder: Path, project: Path, names: Sequence[str]) -> InstructionsFile | None:
    for name in names:
        path = folder / name
        try:
            # A link out of the project would show any file of the user to the model.
            if not path.resolve(strict=True).is_relative_to(project.resolve()):
                continue
            found = path.stat()
            if not stat.S_ISREG(found.st_mode):
                continue
            if found.st_size > MOST_BYTES:
                return InstructionsFile(str(path), size=found.st_size)
            if text := decode(path.read_bytes()):
                return InstructionsFile(str(path), text)
        except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
            continue
    return None
