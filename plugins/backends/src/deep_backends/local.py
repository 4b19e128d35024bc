"""The local backend: a directory of this machine, its files confined, its commands with a scrubbed environment."""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import stat
import sys
from collections.abc import AsyncIterable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import islice

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    LocalWorkspaceBackend,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    WorkspaceBackend,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceUnavailableError,
)

from deep_core import SupportsGuardedWrite, SupportsRangeRead, SupportsStreamWrite
from deep_core.plugin_api import find_program

from .arguments import check_expected, check_range
from .background import LocalCommands, Staying
from .environment import PassedEnv, check_env, command_environment
from .errors import ConfinementError, FileTooLargeError
from .exclusive import Exclusive, file_key
from .hiding import hide_environment
from .limits import MAX_OUTPUT_BYTES, MAX_READ_BYTES
from .offload import DIRECT_BYTES, DIRECT_ENTRIES, in_thread
from .protect import ProtectedPaths
from .staging import Staged
from .walk import Walk, below

__all__ = ["SUPERVISE", "LocalBackend"]

_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
SUPERVISE = os.path.join(os.path.dirname(__file__), "supervise.py")
"""The script that runs a command and leaves nothing of it."""
_PREVIEW_CHARACTERS = 64 * 1024


class LocalBackend(
    LocalCommands,
    WorkspaceBackend,
    SupportsCommands,
    SupportsFilesystem,
    SupportsRealpath,
    SupportsRangeRead,
    SupportsStreamWrite,
    SupportsGuardedWrite,
):
    """Files and commands in one directory of this machine.

    **File operations are confined** to `root`: `..`, absolute paths and symlinks that lead out raise
    `ConfinementError`, even if a link is swapped in during the operation; symlinks that stay inside are
    followed. Nothing is written below the running interpreter's site directories or virtual environment, nor to the
    `protected` paths; reading there is fine. A hard link, or a directory mounted inside the root, looks like
    an ordinary file or directory.

    **Commands are not confined**: a shell reaches whatever this process's user can. They start in the root, in bash
    where it is installed, with only the variables in `deep_backends.environment.INHERITED` and those of `env`.

    Writes are atomic (a temporary file beside the target, fsync, rename) and keep the mode bits; hard links to
    the old content and extended attributes are not carried over. Content up to 256 KiB is handled in the caller's
    thread, larger content in a worker thread.

    Building one does no I/O; the directory has to exist at the first operation.

    Args:
        root: The directory; `~` is expanded, and a relative path starts at the present current directory.
        env: Names of host variables that commands also see, or a mapping of names to values.
        protected: Files and directories that are never written, such as configuration in use.
        hide_environment: Whether the first command makes this process's environment and memory unreadable for
            commands, on Linux and unless they run as the superuser. No debugger can attach to it then.
        max_read_bytes: Maximum bytes of a file for `read_bytes`; larger ones are read by range.
        max_output_bytes: Maximum bytes of output of a command, at most 10 MiB.
        virtual_root: Whether an absolute path outside the root names a file below it: `/src/main.py` is
            `src/main.py`. Commands see the real paths.

    Raises:
        NotImplementedError: The platform is not POSIX.
        TypeError, ValueError: `env` or a limit is wrong.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        env: PassedEnv = (),
        protected: Iterable[str | os.PathLike[str]] = (),
        hide_environment: bool = True,
        max_read_bytes: int = MAX_READ_BYTES,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        virtual_root: bool = False,
    ) -> None:
        if os.name != "posix":
            raise NotImplementedError(
                "the local backend needs a POSIX system: it uses openat and process groups; "
                "use the memory or the docker backend here"
            )
        if max_read_bytes < 1:
            raise ValueError(f"max_read_bytes must be at least 1, got {max_read_bytes}")
        if not 1 <= max_output_bytes <= MAX_OUTPUT_BYTES:
            raise ValueError(f"max_output_bytes must be from 1 to {MAX_OUTPUT_BYTES}, got {max_output_bytes}")
        name: str = os.fspath(root)
        given = os.path.expanduser(name)
        # Not normalized: `link/..` means the parent of the link's target.
        self._given = given if os.path.isabs(given) else os.path.join(os.getcwd(), given)
        # Its own provider: Pydantic AI's unconfined LocalWorkspace accepts refs of "local", and a conversation
        # must not lose its confinement when an agent with that one continues it.
        # A name that is not UTF-8 is escaped: messages have the ref, and would not be JSON otherwise.
        text = os.path.normpath(self._given).encode("utf-8", "backslashreplace").decode()
        self._ref = WorkspaceRef(provider="deep-local", id=text)
        self._env = check_env(env)
        self._protected = _absolute(protected)
        self._hide_environment = hide_environment
        self._max_read_bytes = max_read_bytes
        self._max_output_bytes = max_output_bytes
        self._virtual_root = virtual_root
        self._commands = LocalWorkspaceBackend(self._given)

    @property
    def ref(self) -> WorkspaceRef:
        """`WorkspaceRef(provider="deep-local", id=<absolute root>)`, from construction on."""
        return self._ref

    def protect(self, *paths: str | os.PathLike[str]) -> None:
        """Deny writes to these files, or below these directories, from now on. Repeating a path changes nothing."""
        added = [path for path in _absolute(paths) if path not in self._protected]
        self._protected.extend(added)
        if "_confined" in vars(self):
            self._confined.add(added)

    @cached_property
    def _confined(self) -> ProtectedPaths:
        """The root and its protected paths, as the first operation resolves them."""
        root = os.path.realpath(self._given)
        if not os.path.isdir(root):
            raise WorkspaceUnavailableError(
                f"the workspace directory {self._given!r} does not exist: create it, or choose another root"
            )
        return ProtectedPaths(root, self._protected)

    def _named(self, path: str) -> str:
        """Return the path that `path` names: with a virtual root, what is outside is below the root."""
        root = self._confined.root
        if not self._virtual_root or not path.startswith("/") or "\0" in path or below(path, root) is not None:
            return path
        # Another spelling of the root, such as `/var` on macOS, is inside.
        return path if below(os.path.realpath(path), root) is not None else f"{root}/{path.lstrip('/')}"

    def _stage(self, path: str, *, create_parents: bool = True) -> Staged:
        bounds, path = self._confined, self._named(path)
        return Staged(bounds.root, path, guard=bounds.guard(path), create_parents=create_parents)

    async def working_dir(self) -> str:
        """The root, without symlinks.

        Raises:
            WorkspaceUnavailableError: It does not exist.
        """
        root = self._confined.root
        if not os.path.isdir(root):  # noqa: ASYNC240 - a microsecond, and every relative path asks
            raise WorkspaceUnavailableError(
                f"the workspace directory {root!r} no longer exists: create it again, or give the backend another root"
            )
        return root

    # Reading

    def _open_file(self, path: str) -> tuple[int, int]:
        """Open a regular file; return its descriptor and its size in bytes."""
        path = self._named(path)
        with Walk(self._confined.root, path) as walk:
            while True:
                if not walk.name:
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                try:
                    # O_NONBLOCK: a FIFO without a writer would keep open() waiting.
                    fd = os.open(walk.name, _READ, dir_fd=walk.parent)
                except OSError as error:
                    if error.errno == errno.ENXIO:
                        raise OSError(errno.EINVAL, "not a regular file", path) from error
                    if error.errno not in (errno.ELOOP, errno.EMLINK) or not walk.follow():
                        raise
                    continue
                try:
                    found = os.fstat(fd)
                    if stat.S_ISDIR(found.st_mode):
                        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
                    if not stat.S_ISREG(found.st_mode):
                        raise OSError(errno.EINVAL, "not a regular file", path)
                except BaseException:
                    os.close(fd)
                    raise
                return fd, found.st_size

    async def read_bytes(self, path: str) -> bytes:
        """Read a regular file.

        Raises:
            FileTooLargeError: It has more than `max_read_bytes`; use `read_range`.
            OSError: It is missing, a directory, a FIFO, a socket or a device, or not readable.
        """
        fd, size = self._open_file(path)
        try:
            if size > self._max_read_bytes:
                raise FileTooLargeError.above(path, size, self._max_read_bytes)
            # One more than allowed, to detect a file that grows meanwhile.
            read = partial(_read_all, fd, size, self._max_read_bytes + 1)
            data = read() if size <= DIRECT_BYTES else await in_thread(read)
            if len(data) > self._max_read_bytes:
                raise FileTooLargeError.above(path, len(data), self._max_read_bytes)
            return data
        finally:
            os.close(fd)

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """See `SupportsRangeRead.read_range`."""
        check_range(start, length)
        fd, size = self._open_file(path)
        try:
            read = partial(_read_range, fd, start, min(length, max(size - start, 0)))
            return read() if length <= DIRECT_BYTES else await in_thread(read)
        finally:
            os.close(fd)

    def _entry(self, path: str, name: str) -> FileEntry:
        with Walk(self._confined.root, self._named(path)) as walk:
            found = walk.stat()
        is_dir = stat.S_ISDIR(found.st_mode)
        return FileEntry(
            name=name, path=path, is_dir=is_dir, size=found.st_size if stat.S_ISREG(found.st_mode) else None
        )

    async def stat(self, path: str) -> FileEntry:
        """Describe `path`, following symlinks inside the root; only a regular file has a size."""
        return self._entry(path, posixpath.basename(path.rstrip("/")))

    async def exists(self, path: str) -> bool:
        """Whether `path` exists; False only for a missing path, a path through a file, or a link loop.

        Raises:
            ConfinementError: The path leads outside the root.
        """
        try:
            self._entry(path, "")
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            if error.errno == errno.ELOOP:
                return False
            raise
        return True

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        """List a directory, sorted by name; a link that is broken or leads outside is a file without size."""
        path = self._named(path)
        fd, real = self._open_directory(path)
        try:
            with os.scandir(fd) as scan:
                take = partial(self._entries, path, real)
                entries = take(islice(scan, DIRECT_ENTRIES))
                if len(entries) == DIRECT_ENTRIES:
                    entries += await in_thread(lambda: take(scan))
        finally:
            os.close(fd)
        entries.sort(key=lambda entry: entry.name)
        return entries

    def open_directory(self, path: str) -> int:
        """Open a directory for reading, as `list_dir` does; return a descriptor, which the caller closes.

        What opens the folders below it one by one, without following links, stays below the root as well.
        """
        return self._open_directory(self._named(path))[0]

    def _open_directory(self, path: str) -> tuple[int, str]:
        with Walk(self._confined.root, path) as walk:
            walk.enter()
            return os.open(".", _LIST, dir_fd=walk.parent), walk.real

    def _entries(self, path: str, real: str, scan: Iterator[os.DirEntry[str]]) -> list[FileEntry]:
        entries: list[FileEntry] = []
        for child in scan:
            try:
                if child.is_symlink():
                    target = self._entry(posixpath.join(real, child.name), child.name)
                    is_dir, size = target.is_dir, target.size
                else:
                    is_dir = child.is_dir(follow_symlinks=False)
                    is_file = child.is_file(follow_symlinks=False)
                    size = child.stat(follow_symlinks=False).st_size if is_file else None
            except OSError:
                # A broken or escaping link, or a removed entry, must not fail the whole listing.
                is_dir, size = False, None
            entries.append(FileEntry(name=child.name, path=posixpath.join(path, child.name), is_dir=is_dir, size=size))
        return entries

    async def realpath(self, path: str) -> str:
        """Resolve `path`; directories above the root are resolved too, because the root's path has them.

        Raises:
            ConfinementError: It leads outside the root.
        """
        root = self._confined.root
        if "\0" in path:
            raise ValueError(f"a path cannot hold a NUL byte: {path!r}")
        if not path.startswith("/"):
            raise ValueError(f"the path must be absolute, got {path!r}")
        real = os.path.realpath(self._named(path))  # noqa: ASYNC240 - cheap
        if below(real, root) is None and below(root, real) is None:
            raise ConfinementError.outside(path, root)
        return real

    # Writing

    def _before_check(self, path: str) -> None:
        """Called just before a guarded write checks the file; tests override it to change the file first."""

    def _before_replace(self, path: str) -> None:
        """Called between the last check and the rename; changes by other processes after this are not detected."""

    async def write_bytes(self, path: str, data: bytes) -> None:
        """Replace a file's content atomically, through symlinks inside the root, creating missing parents."""
        with self._stage(path) as staged:
            await in_thread(partial(staged.fill, data))  # it waits for the disk, however little there is
            async with Exclusive(staged.key):
                self._before_replace(staged.real)
                staged.replace()

    async def write_stream(self, path: str, chunks: AsyncIterable[bytes]) -> int:
        """See `SupportsStreamWrite.write_stream`; at most 256 KiB and one chunk are in memory."""
        total = 0
        buffer = bytearray()
        with self._stage(path) as staged:
            async for chunk in chunks:
                buffer += chunk
                total += len(chunk)
                if len(buffer) > DIRECT_BYTES:
                    await in_thread(partial(staged.write, buffer))
                    buffer = bytearray()
            await in_thread(lambda: (staged.write(buffer), staged.sync()))
            # No await between here and the end once the file is ours: a cancellation comes before the rename or not.
            async with Exclusive(staged.key):
                self._before_replace(staged.real)
                staged.replace()
        return total

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """See `SupportsGuardedWrite.write_if`.

        Writers of this process wait for each other. On Linux, the new file and the old one change places, and then the
        old one is checked again: what another process wrote or renamed there before is not lost. What it writes into
        the old file later, through a descriptor that it still has open, is lost. Elsewhere, the check comes right
        before the rename. Creating, with `expected=None`, has no gap.

        Raises:
            IsADirectoryError: `expected` is a hash and the path is a directory.
        """
        check_expected(expected)
        try:
            staged = self._stage(path, create_parents=expected is None)
        except (FileNotFoundError, NotADirectoryError):
            if expected is None:
                raise
            return False
        except IsADirectoryError:
            if expected is None:
                return False
            raise
        with staged:
            await in_thread(partial(staged.fill, data))  # it waits for the disk, however little there is
            async with Exclusive(staged.key):
                self._before_check(staged.real)
                commit = partial(self._commit, staged, expected)
                return commit() if staged.size() <= DIRECT_BYTES else await in_thread(commit)

    def _commit(self, staged: Staged, expected: str | None) -> bool:
        if expected is None:
            self._before_replace(staged.real)
            return staged.create()
        if staged.digest() != expected.lower():
            return False
        self._before_replace(staged.real)
        return staged.replace_if(expected.lower())

    async def make_dir(self, path: str) -> None:
        """Create a directory and its missing parents; an existing one is fine.

        Raises:
            FileExistsError: It is a file.
        """
        bounds, path = self._confined, self._named(path)
        with Walk(bounds.root, path, guard=bounds.guard(path), create=True) as walk:
            name = walk.name
            try:
                walk.enter()
            except NotADirectoryError as error:
                # Only the last name can be a file here; one further up raised NotADirectoryError.
                if walk.name or not name:
                    raise
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path) from error

    async def remove(self, path: str) -> None:
        """Remove a file, a symlink itself, or a directory with everything in it.

        Raises:
            ValueError: The path is the root (or, as `ConfinementError`, above it).
        """
        bounds, path = self._confined, self._named(path)
        guard = bounds.guard(path)
        with Walk(bounds.root, path, guard=guard) as walk:
            if not walk.name:
                raise ValueError(f"cannot remove the workspace's own directory {walk.real!r}")
            found = walk.lstat()
            if guard is not None:
                guard.remove(walk.real, found)
            if stat.S_ISDIR(found.st_mode):
                # By descriptor, never through a link: shutil.rmtree is safe against swapped links here.
                await in_thread(partial(shutil.rmtree, walk.name, dir_fd=walk.parent))
                return
            async with Exclusive(file_key(walk.parent, walk.name)):
                os.unlink(walk.name, dir_fd=walk.parent)

    # Commands

    @cached_property
    def shell(self) -> str:
        """The absolute path of the shell of commands: bash where it is installed, else `/bin/sh`.

        Models write bash. dash reads `program &> file` as two commands, and a failing program as a success.
        """
        return find_program("bash", outside=self._ref.id) or "/bin/sh"

    def describe(self) -> str | None:
        """Say which shell runs commands, if it is not bash."""
        return None if os.path.basename(self.shell) == "bash" else f"Commands run in {self.shell}: there is no bash."

    def _confine(self, argv: Sequence[str], environment: dict[str, str]) -> list[str]:
        """Return the words that run `argv`, confined where the backend confines commands."""
        return [*argv]

    def _environment(self) -> dict[str, str]:
        return {**command_environment(self._env), "SHELL": self.shell}

    async def _staying(self, command: str) -> Staying:
        if self._hide_environment:
            hide_environment()
        return Staying([self.shell, "-c", command], self._environment())

    async def _open_log(self, path: str) -> int:
        """Make a file below the root, empty, and return a descriptor to write it."""
        ignore = f"{posixpath.dirname(posixpath.dirname(path))}/.gitignore"
        if not await self.exists(ignore):
            await self.write_bytes(ignore, b"*\n")
        await self.write_bytes(path, b"")
        with Walk(self._confined.root, path) as walk:
            return os.open(walk.name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=walk.parent)

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - the protocol's parameter
    ) -> CommandResult:
        """Run a command in the root, like `pydantic_ai.workspaces.SupportsCommands.run`.

        A command is not confined to the root. It sees the scrubbed environment plus `env`. When it ends, the processes
        that it started and left are killed; on Linux also those in sessions of their own.

        Raises:
            WorkspaceTimeoutError: It took longer than `timeout` seconds and its process group was killed.
            WorkspaceOutputLimitError: It produced more than `max_output_bytes`.
            WorkspaceUnavailableError: The root is gone.
        """
        environment = {**self._environment(), **(env or {})}
        if command and shell == isinstance(command, str):  # else the wrong form, which it refuses
            argv = [self.shell, "-c", command] if isinstance(command, str) else [*command]
            words = self._confine(argv, environment)
            # -I: neither the environment nor the working directory affects the supervisor's imports.
            command = [sys.executable, "-I", "-S", SUPERVISE, *words] if sys.executable else words
            shell = False
        if self._hide_environment:
            hide_environment()
        result = await self._commands.run(command, shell=shell, env=environment, timeout=timeout)
        if sum(_encoded_size(output) for output in (result.stdout, result.stderr)) > self._max_output_bytes:
            raise WorkspaceOutputLimitError(
                f"the command produced more than {self._max_output_bytes} bytes of output (exit code "
                f"{result.exit_code}); redirect it to a file and read a part of that",
                limit=self._max_output_bytes,
                stdout=result.stdout[:_PREVIEW_CHARACTERS],
                stderr=result.stderr[:_PREVIEW_CHARACTERS],
            )
        return result


def _absolute(paths: Iterable[str | os.PathLike[str]]) -> list[str]:
    return [os.path.abspath(os.path.expanduser(path)) for path in paths]


def _read_all(fd: int, size: int, limit: int) -> bytes:
    """Read a file, at most `limit` bytes; one system call for a file that does not change."""
    data = os.read(fd, min(size + 1, limit))
    if len(data) != size:  # it changed size meanwhile, or the file system returned less
        while len(data) < limit and (block := os.read(fd, min(DIRECT_BYTES, limit - len(data)))):
            data += block
    return data


def _encoded_size(output: str) -> int:
    return len(output) if output.isascii() else len(output.encode())


def _read_range(fd: int, start: int, length: int) -> bytes:
    blocks: list[bytes] = []
    while length > 0 and (block := os.pread(fd, length, start)):
        blocks.append(block)
        start += len(block)
        length -= len(block)
    return blocks[0] if len(blocks) == 1 else b"".join(blocks)
