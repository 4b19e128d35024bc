"""Paths that file operations never change: the running interpreter's packages and config files in use."""

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
    """List the directories with the code of this interpreter: site directories and the virtual environment.

    A virtual environment is protected as a whole, with scripts and `pyvenv.cfg`. Without one the interpreter's
    prefix is not: the operating system protects `/usr`.
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
    """The path itself and its target: replacing a link to a config file replaces the config."""
    parent, name = os.path.split(os.path.abspath(path))
    return {os.path.join(os.path.realpath(parent), name), os.path.realpath(path)}


def _below(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory.rstrip("/") + "/")


# macOS file systems usually ignore case. Existing files are compared by inode as well; this is for missing ones.
_fold = str.casefold if sys.platform == "darwin" else str


class ProtectedPaths:
    """The protected paths of one root.

    Attributes:
        root: The real path of the root.

    Args:
        root: The real path of the directory that a backend is confined to.
        paths: Files and directories to protect, besides `interpreter_paths()`.
    """

    def __init__(self, root: str, paths: Iterable[str]) -> None:
        self.root = root
        self._inside: frozenset[str] = frozenset()
        self._root_below: str | None = None
        self.add([*interpreter_paths(), *paths])

    def add(self, paths: Iterable[str]) -> None:
        """Protect `paths` from now on; those outside the root cost nothing later."""
        for spelling in {found for path in paths for found in _spellings(path)}:
            if _below(_fold(self.root), _fold(spelling)):
                self._root_below = spelling
            elif _below(_fold(spelling), _fold(self.root)):
                self._inside |= {spelling}

    @property
    def inside(self) -> frozenset[str]:
        """The protected paths below the root, whether they exist or not."""
        return self._inside

    def guard(self, path: str) -> WriteGuard | None:
        """Return the check for a change of `path`, or `None` if nothing under the root is protected.

        Raises:
            ProtectedPathError: The root itself is below a protected directory.
        """
        if self._root_below is not None:
            raise ProtectedPathError.below(path, self.root, self._root_below)
        return WriteGuard(path, self.root, self._inside) if self._inside else None


class WriteGuard:
    """Check the steps of one change against the protected paths, by name and by inode.

    By inode as well, because a name has many spellings: case, Unicode forms, bind mounts.
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
                continue  # it does not exist: only its name can be checked
            self._inodes[found.st_dev, found.st_ino] = name

    def refused(self, protected: str) -> ProtectedPathError:
        """Build the error for a change of `protected`."""
        return ProtectedPathError.below(self._path, self._root, protected)

    def find(self, real: str, found: os.stat_result | None = None) -> str | None:
        """Find the protected path equal to `real`, or `None`.

        Args:
            real: An absolute path without symlinks.
            found: Its `fstat` or `lstat` result, or `None` if it does not exist.
        """
        name = self._names.get(_fold(real))
        if name is None and found is not None:
            name = self._inodes.get((found.st_dev, found.st_ino))
        return name

    def change(self, real: str, found: os.stat_result | None = None) -> None:
        """Raise if `real`, which is about to be created or replaced, is protected; arguments as for `find`.

        Raises:
            ProtectedPathError: It is protected.
        """
        if (name := self.find(real, found)) is not None:
            raise self.refused(name)

    def remove(self, real: str, found: os.stat_result) -> None:
        """Raise if `real`, which is about to be removed, is protected or contains a protected path.

        Raises:
            ProtectedPathError: It does.
        """
        self.change(real, found)
        for folded, name in self._names.items():
            if _below(folded, _fold(real)):
                raise self.refused(name)
