"""Find programs to start: never one that a repository brings."""

from __future__ import annotations

import os
import shutil


def absolute_path(path: str) -> str:
    """The entries of a PATH without those that depend on the current directory: relative and empty ones."""
    return os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))


def find_program(name: str, *, outside: str | None = None) -> str | None:
    """Find a program on the PATH; return its absolute path, or None.

    Args:
        name: without a folder.
        outside: a directory, such as a workspace, whose programs do not count, even if the PATH names it.
    """
    roots = {os.path.abspath(outside), os.path.realpath(outside)} if outside else ()
    for folder in absolute_path(os.environ.get("PATH", os.defpath)).split(os.pathsep):
        found = shutil.which(name, path=folder) if folder else None
        # A link in the workspace that leads out of it may lead elsewhere later.
        ways = {os.path.abspath(found), os.path.realpath(folder), os.path.realpath(found)} if found else ()
        if found and not any(os.path.commonpath([root, way]) == root for root in roots for way in ways):
            return found
    return None
