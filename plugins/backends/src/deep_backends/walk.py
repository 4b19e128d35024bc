"""Confinement: walk a path from the root, one open directory at a time, without following symlinks.

Checking a path and then opening it by name leaves a moment in which a link can be swapped in. Here nothing is
opened by path: each component is opened relative to the descriptor of the directory before it, with
`O_NOFOLLOW`. A component that is a symlink is read and its target walked in the same way, from the
directory that has it, or from the root if it is absolute and leads inside; a walk that would leave the root
raises an error. So the result is below the root whatever else happens meanwhile. This needs POSIX
`openat` alone and works on Linux and macOS alike.
"""

from __future__ import annotations

import errno
import os
import stat
from types import TracebackType

from pydantic_ai.workspaces import WorkspaceUnavailableError

from .errors import ConfinementError, quote_path
from .protect import WriteGuard

__all__ = ["Walk", "below"]

# Linux can open a directory for walking only, which needs search permission but no read permission.
_DIRECTORY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LINK_ERRNOS = frozenset({errno.ELOOP, errno.ENOTDIR, errno.EMLINK})
_MAX_LINKS = 40
"""As Linux (MAXSYMLINKS); macOS allows 32."""
_MAX_PATH_BYTES = 4096
"""PATH_MAX of Linux. Walking by component has no such limit, so a very long path would cost a very long walk."""


def below(path: str, root: str) -> str | None:
    """The part of `path` below `root` (`""` for the root itself), or `None` if it is elsewhere; both as text."""
    if path == root:
        return ""
    prefix = root if root.endswith("/") else f"{root}/"
    return path[len(prefix) :] if path.startswith(prefix) else None


class Walk:
    """One walk from the root to a path; a context manager, because it holds the last directory open.

    After construction `parent` is the descriptor of the real directory with the target and `name` the target's
    name in it, which may be a symlink or not exist; `name` is empty if the target is the root. `follow()` continues
    through a symlink there.

    Args:
        root: The real path of the directory to stay in.
        path: The absolute POSIX path to walk.
        guard: Rejects protected directories, for walks that change something.
        create: Whether to create missing directories on the way.

    Raises:
        ConfinementError: The path leads outside the root.
        ValueError: The path is relative or holds a NUL byte.
        WorkspaceUnavailableError: The root is gone.
        OSError: As opening the path would raise.
    """

    __slots__ = (
        "_create",
        "_created",
        "_guard",
        "_links",
        "_names",
        "_path",
        "_pending",
        "_protected",
        "_root",
        "name",
        "parent",
    )

    def __init__(self, root: str, path: str, *, guard: WriteGuard | None = None, create: bool = False) -> None:
        self._root = root
        self._path = path
        self._guard = guard
        self._create = create
        self._links = 0
        self._names: list[str] = []
        self._pending: list[str] = []
        self._protected: str | None = None
        self.parent = -1
        self.name = ""
        self._created: list[str] = []
        try:
            self._restart(self._parts(path))
            self._descend()
        except BaseException as error:
            self._explain(error)
            self.close()
            self.undo()
            raise

    def _parts(self, path: str) -> list[str]:
        if "\0" in path:
            raise ValueError(f"a path cannot hold a NUL byte: {quote_path(path)}")
        if len(path) > _MAX_PATH_BYTES or len(os.fsencode(path)) > _MAX_PATH_BYTES:
            raise OSError(errno.ENAMETOOLONG, f"the path is longer than {_MAX_PATH_BYTES} bytes", f"{path[:80]}…")
        inside = below(path, self._root)
        if inside is None:
            if not path.startswith("/"):
                raise ValueError(f"the path must be absolute, got {quote_path(path)}")
            # Maybe another spelling of the root (`/var` is a link on macOS). The answer may be stale when
            # used: it only gives the names below the root to walk.
            parent, name = os.path.split(path.rstrip("/") or "/")
            last_is_name = name not in ("", ".", "..")
            real = os.path.join(os.path.realpath(parent), name) if last_is_name else os.path.realpath(path)
            inside = below(real, self._root)
            if inside is None:
                raise ConfinementError.outside(path, self._root)
        return inside.split("/")

    @property
    def real(self) -> str:
        """The target's absolute path, without symlinks before it."""
        return self._real(self.name)

    def _real(self, name: str) -> str:
        names = [*self._names, name] if name else self._names
        return "/".join([self._root.rstrip("/"), *names]) or "/"

    def _restart(self, parts: list[str]) -> None:
        """Go back to the root, with `parts` still to walk."""
        try:
            root = os.open(self._root, _DIRECTORY)
        except OSError as error:
            if error.errno not in (errno.ENOENT, *_LINK_ERRNOS):
                raise
            raise WorkspaceUnavailableError(
                f"the workspace directory {self._root!r} no longer exists: create it again, or choose another root"
            ) from error
        self.close()
        self.parent = root
        self._names = []
        self._pending = [part for part in reversed(parts) if part not in ("", ".")]
        self._protected = None if self._guard is None else self._guard.find(self._root, os.fstat(root))

    def _descend(self) -> None:
        self.name = ""
        while self._pending:
            part = self._pending.pop()
            if part == "..":
                if self._names:
                    # Walked names are not links, so their parent is the name before; walk it again, do not trust it.
                    self._restart([*self._names[:-1], *reversed(self._pending)])
                else:
                    self._outside(["..", *reversed(self._pending)])
            elif self._pending:
                self._enter(part)
            else:
                self.name = part
        # Only the end counts: a walk may pass through a protected directory, as `.venv/../src` does.
        if self._guard is not None and self._protected is not None:
            raise self._guard.refused(self._protected)

    def _enter(self, part: str) -> None:
        try:
            directory = os.open(part, _DIRECTORY, dir_fd=self.parent)
        except FileNotFoundError:
            if not self._create:
                raise
            directory = self._make(part)
        except OSError as error:
            if error.errno not in _LINK_ERRNOS:
                raise
            directory = None
        if directory is None:
            if not self._jump(part):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), self._path)
            return
        os.close(self.parent)
        self.parent = directory
        self._names.append(part)
        if self._guard is not None and self._protected is None:
            self._protected = self._guard.find(self._real(""), os.fstat(directory))

    def _make(self, part: str) -> int | None:
        """Create and open a directory; `None` if another process was faster and put a link there."""
        if self._guard is not None:
            if self._protected is not None:
                raise self._guard.refused(self._protected)
            self._guard.change(self._real(part))
        try:
            os.mkdir(part, dir_fd=self.parent)
            self._created.append(self._real(part))
        except FileExistsError:
            pass  # created meanwhile by another writer
        try:
            return os.open(part, _DIRECTORY, dir_fd=self.parent)
        except OSError as error:
            if error.errno not in _LINK_ERRNOS:
                raise
            return None

    def _jump(self, name: str) -> bool:
        """Put the target of the symlink `name` before the rest of the path; False if it is not a symlink."""
        try:
            target = os.readlink(name, dir_fd=self.parent)
        except OSError as error:
            if error.errno == errno.EINVAL:
                return False
            raise
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        if not target.startswith("/"):
            self._pending.extend(part for part in reversed(target.split("/")) if part not in ("", "."))
        else:
            inside = below(target, self._root)
            rest = [*reversed(self._pending)]
            if inside is None:
                self._outside([target, *rest])
            else:
                self._restart([*inside.split("/"), *rest])
        return True

    def _outside(self, tail: list[str]) -> None:
        """Continue from the root if `tail`, which leaves the root, leads back inside (as `../project/x` does).

        Like another spelling of the root, the real path only gives the names to walk.
        """
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), self._path)
        inside = below(os.path.realpath(os.path.join(self._root, *self._names, *tail)), self._root)
        if inside is None:
            raise ConfinementError.outside(self._path, self._root)
        self._restart(inside.split("/"))

    def follow(self) -> bool:
        """Follow the symlink at `name`; False, and nothing changed, if it is not a symlink."""
        if not self.name or not self._jump(self.name):
            return False
        self._descend()
        return True

    def enter(self) -> None:
        """Make the target, which must be a directory, the open `parent`, and `name` empty."""
        while self.name:
            name, self.name = self.name, ""
            self._enter(name)
            self._descend()

    def lstat(self) -> os.stat_result:
        """The status of the target, not following a symlink there."""
        if not self.name:
            return os.fstat(self.parent)
        return os.stat(self.name, dir_fd=self.parent, follow_symlinks=False)

    def stat(self) -> os.stat_result:
        """The status of the target, following symlinks inside the root."""
        while stat.S_ISLNK((found := self.lstat()).st_mode):
            self.follow()
        return found

    def undo(self) -> None:
        """Remove the directories that this walk created, while they are empty."""
        while self._created:
            try:
                with Walk(self._root, self._created.pop()) as walk:
                    os.rmdir(walk.name, dir_fd=walk.parent)
            except OSError:
                return  # another writer uses or removed it

    def close(self) -> None:
        """Close the open directory."""
        if self.parent >= 0:
            parent, self.parent = self.parent, -1
            os.close(parent)

    def _explain(self, error: BaseException | None) -> None:
        """Put the caller's path into an error of the operating system, which has only the last component."""
        if isinstance(error, OSError) and error.errno is not None:
            if error.errno == errno.ENAMETOOLONG:
                error.strerror = "a name in the path is too long for the file system (usually 255 bytes)"
                error.filename = f"{self._path[:80]}…"
            else:
                error.filename = self._path
            del error.filename2

    def __enter__(self) -> Walk:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._explain(error)
        self.close()
