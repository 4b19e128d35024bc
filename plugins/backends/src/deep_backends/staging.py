"""Replace files atomically: write the new content beside the target, make it durable, then rename."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from contextlib import suppress
from types import TracebackType

from .exchange import exchange
from .exclusive import FileKey, file_key
from .protect import WriteGuard
from .walk import Walk

__all__ = ["Staged"]

_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS, errno.EACCES})
_HASH_BYTES = 1024 * 1024
_effective = {"effective_ids": True} if os.access in os.supports_effective_ids else {}


class Staged:
    """New content for one file, in a temporary file beside it, until `replace` or `create` moves it.

    A context manager: leaving it without either removes the temporary file, and the directories created for it.
    Symlinks inside the root are followed first, so a write goes through a link and the link remains.

    Args:
        root: The real path of the directory to stay in.
        path: The absolute path of the file.
        guard: Rejects protected paths.
        create_parents: Whether to create missing parent directories.

    Raises:
        ConfinementError: The path leads outside the root.
        IsADirectoryError: The path is a directory.
        PermissionError: The file, or its directory, is not writable.
        OSError: The path is a FIFO, socket or device, or the file system rejects it.
    """

    def __init__(self, root: str, path: str, *, guard: WriteGuard | None, create_parents: bool = True) -> None:
        self._path = path
        self._fd = -1
        self._temporary = ""
        self._walk = Walk(root, path, guard=guard, create=create_parents)
        try:
            self._open(self._target(guard))
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise

    @property
    def real(self) -> str:
        """The file's absolute path, without symlinks."""
        return self._walk.real

    @property
    def key(self) -> FileKey:
        """The key by which writers of this file exclude each other."""
        return file_key(self._walk.parent, self._walk.name)

    def _target(self, guard: WriteGuard | None) -> os.stat_result | None:
        walk = self._walk
        try:
            existing = walk.stat()
        except FileNotFoundError:
            existing = None
        if guard is not None:
            guard.change(walk.real, existing)
        if existing is None:
            return None
        if stat.S_ISDIR(existing.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._path)
        if not stat.S_ISREG(existing.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", self._path)
        # A rename needs only the directory's permission; keep a file that its owner made read-only.
        if not os.access(walk.name, os.W_OK, dir_fd=walk.parent, **_effective):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), self._path)
        return existing

    def _open(self, existing: os.stat_result | None) -> None:
        temporary = f".deep-{secrets.token_hex(8)}.tmp"
        self._fd = os.open(temporary, _CREATE, 0o666 if existing is None else 0o600, dir_fd=self._walk.parent)
        self._temporary = temporary
        if existing is None:
            return
        own = os.fstat(self._fd)
        if (own.st_uid, own.st_gid) != (existing.st_uid, existing.st_gid):
            # Only the superuser may set an owner; other users own the replacement, as with an editor.
            with suppress(PermissionError):
                os.fchown(self._fd, existing.st_uid, existing.st_gid)
        # Without set-user-id and the like, which the kernel also drops on a write.
        os.fchmod(self._fd, existing.st_mode & 0o777)

    def write(self, data: bytes | bytearray) -> None:
        """Append `data` to the new content."""
        with memoryview(data) as view:
            done = 0
            while done < len(view):
                done += os.write(self._fd, view[done:])

    def sync(self) -> None:
        """Make the new content durable; nothing can be written after it."""
        os.fsync(self._fd)
        self._close()

    def fill(self, data: bytes) -> None:
        """Write `data` as the whole content and make it durable."""
        self.write(data)
        self.sync()

    def size(self) -> int:
        """The size in bytes of the target now; 0 if it does not exist."""
        try:
            return self._walk.lstat().st_size
        except FileNotFoundError:
            return 0

    def digest(self) -> str | None:
        """The SHA-256, in hexadecimal, of the target's content now; `None` if it is not a regular file."""
        return self._digest(self._walk.name)

    def _digest(self, name: str) -> str | None:
        try:
            fd = os.open(name, _READ, dir_fd=self._walk.parent)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK, errno.ENXIO):
                return None  # a symlink or a socket appeared meanwhile
            raise
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            found = hashlib.sha256()
            while block := os.read(fd, _HASH_BYTES):
                found.update(block)
            return found.hexdigest()
        finally:
            os.close(fd)

    def replace(self) -> None:
        """Replace the target with the new content."""
        parent = self._walk.parent
        os.rename(self._temporary, self._walk.name, src_dir_fd=parent, dst_dir_fd=parent)
        self._temporary = ""

    def replace_if(self, expected: str) -> bool:
        """Replace the target if its content has this SHA-256; else leave what is there. Return whether it did.

        Where the system can exchange names, what was displaced is checked, and put back if it is another content: what
        another program wrote or renamed there just before is not lost.
        """
        parent, name = self._walk.parent, self._walk.name
        ours = os.stat(self._temporary, dir_fd=parent, follow_symlinks=False).st_ino
        try:
            exchanged = exchange(parent, self._temporary, name)
        except FileNotFoundError:
            return False  # it was removed just now
        if not exchanged:
            self.replace()
            return True
        if self._digest(self._temporary) == expected:
            self._discard()
            return True
        # Back, unless another program has replaced or removed ours meanwhile: the newest content stays.
        try:
            if os.stat(name, dir_fd=parent, follow_symlinks=False).st_ino == ours:
                exchange(parent, self._temporary, name)
        except FileNotFoundError:
            self.replace()
        return False

    def create(self) -> bool:
        """Move the new content to the target if nothing is there, atomically; return whether it did."""
        parent, name = self._walk.parent, self._walk.name
        try:
            os.link(self._temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            return self._create_unlinked()
        os.unlink(self._temporary, dir_fd=parent)
        self._temporary = ""
        return True

    def _create_unlinked(self) -> bool:
        """`create` for file systems without hard links: take the name with an empty file, then replace it."""
        parent, name = self._walk.parent, self._walk.name
        try:
            os.close(os.open(name, _CREATE, 0o600, dir_fd=parent))
        except FileExistsError:
            return False
        try:
            self.replace()
        except BaseException:
            os.unlink(name, dir_fd=parent)
            raise
        return True

    def _close(self) -> None:
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            os.close(fd)

    def _discard(self) -> None:
        if self._temporary:
            os.unlink(self._temporary, dir_fd=self._walk.parent)
            self._temporary = ""

    def __enter__(self) -> Staged:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        unused = bool(self._temporary) or error is not None
        try:
            self._close()
            self._discard()
        finally:
            self._walk.__exit__(kind, error, trace)
            if unused:
                self._walk.undo()
