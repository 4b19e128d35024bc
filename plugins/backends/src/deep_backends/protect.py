"""What file operations never change: the running interpreter's packages and config files that were read."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from collections.abc import Iterable
from functools import cache

from .errors import ProtectedPathError

__all__ = ["ProtectedPaths", "WriteGuard", "interpreter_paths"]


@cache
def interpreter_paths() -> tuple[str, ...]:
    """The directories whose content this interpreter imports and runs: site directories and the virtual environment.

    A virtual environment is protected as a whole, scripts and `pyvenv.cfg` included. Without one the interpreter's
    own prefix is not: `/usr` is the operating system's business.
    """
    paths = {path for key, path in sysconfig.get_paths().items() if key in ("purelib", "platlib")}
    base = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
    paths |= {path for key, path in sysconfig.get_paths(vars=base).items() if key in ("purelib", "platlib")}
    paths.update(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        paths.add(site.getusersitepackages())
    if sys.prefix != sys.base_prefix:
        paths |= {sys.prefix, sysconfig.get_path("scripts")}
    return tuple(sorted(paths))


def _spellings(path: str) -> set[str]:
    """Where `path` is and where it leads: replacing a link to a config file replaces the config."""
    parent, name = os.path.split(os.path.abspath(path))
    return {os.path.join(os.path.realpath(parent), name), os.path.realpath(path)}


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


# macOS file systems usually ignore case. Existing files are told by inode as well; this is for those that do not exist.
_fold = str.casefold if sys.platform == "darwin" else str


class ProtectedPaths:
    """The protected paths that concern one root.

    Attributes:
        root: The real path of the root.

    Args:
        root: The real path of the directory that a backend is confined to.
        paths: Files and directories to protect, beside `interpreter_paths()`.
    """

    def __init__(self, root: str, paths: Iterable[str]) -> None:
        self.root = root
        self._inside: frozenset[str] = frozenset()
        self._root_below: str | None = None
        self.add([*interpreter_paths(), *paths])

    def add(self, paths: Iterable[str]) -> None:
        """Protect `paths` from now on; those that do not concern the root cost nothing later."""
        for spelling in {found for path in paths for found in _spellings(path)}:
            if _below(_fold(self.root), _fold(spelling)):
                self._root_below = spelling
            elif _below(_fold(spelling), _fold(self.root)):
                self._inside |= {spelling}

    def guard(self, path: str) -> WriteGuard | None:
        """What checks one change of `path`, or `None` where nothing under the root is protected.

        Raises:
            ProtectedPathError: The root itself lies below a protected directory.
        """
        if self._root_below is not None:
            raise ProtectedPathError.below(path, self.root, self._root_below)
        return WriteGuard(path, self.root, self._inside) if self._inside else None


class WriteGuard:
    """Checks the steps of one change against the protected paths, by name and by inode.

    By inode as well, because a name has many spellings: letter case, Unicode forms, bind mounts.
    """

    def __init__(self, path: str, root: str, protected: Iterable[str]) -> None:
        self._path = path
        self._root = root
        self._names = {_fold(name): name for name in protected}
        self._inodes: dict[tuple[int, int], str] = {}
        for name in protected:
            try:
                found = os.stat(name)
            except FileNotFoundError:
                continue  # protected before it exists: its name is all there is to check
            self._inodes[found.st_dev, found.st_ino] = name

    def refused(self, protected: str) -> ProtectedPathError:
        """The error for a change that would reach `protected`."""
        return ProtectedPathError.below(self._path, self._root, protected)

    def find(self, real: str, found: os.stat_result | None = None) -> str | None:
        """The protected path that `real` is, or `None`.

        Args:
            real: An absolute path without symlinks.
            found: What `fstat` or `lstat` says of it, or `None` where it does not exist yet.
        """
        name = self._names.get(_fold(real))
        if name is None and found is not None:
            name = self._inodes.get((found.st_dev, found.st_ino))
        return name

    def change(self, real: str, found: os.stat_result | None = None) -> None:
        """Refuse to make or replace `real` if it is protected; arguments as for `find`.

        Raises:
            ProtectedPathError: It is protected.
        """
        if (name := self.find(real, found)) is not None:
            raise self.refused(name)

    def remove(self, real: str, found: os.stat_result) -> None:
        """Refuse to remove `real` if it is protected or contains what is.

        Raises:
            ProtectedPathError: It is, or it does.
        """
        self.change(real, found)
        for folded, name in self._names.items():
            if _below(folded, _fold(real)):
                raise self.refused(name)
