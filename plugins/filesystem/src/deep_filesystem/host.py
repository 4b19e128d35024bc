"""The walk of a directory of this machine, in a thread.

`os.scandir` gives a name in a third of a microsecond, `list_dir` in ten: it also returns sizes, and checks each path
from the root on. Here a folder is opened by its name in the open folder above it, without following links, so the
walk stays below its root whatever is renamed meanwhile, as the backend's own walk does.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from anyio import to_thread
from pydantic_ai.workspaces import Workspace

from .access import is_of_this_machine
from .gitignore import MAX_BYTES, Scope, rules_files, rules_text
from .walk import Entries, Sieve, split_printable

__all__ = ["READ", "Folder", "Limit", "SupportsOpenDirectory", "TimeUp", "directory_opener", "in_thread", "scan"]

T = TypeVar("T")

FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
DEEPEST = 200
"""Most folders that are open at a time; deeper ones are left out as unreadable. A path has at most 4,096 bytes."""


@runtime_checkable
class SupportsOpenDirectory(Protocol):
    """A backend whose files are in a directory of this machine."""

    def open_directory(self, path: str) -> int:
        """Open a directory for reading, as `list_dir` does; return a descriptor, which the caller closes."""
        ...


class TimeUp(Exception):
    """The time is up, or the caller has left."""


class Limit:
    """Ends what a thread does: at its time, or once it is stopped."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds
        self._stopped = False

    @property
    def left(self) -> float:
        """The seconds that are left; 0 once it is over."""
        return 0.0 if self._stopped else max(0.0, self._end - time.monotonic())

    def stop(self) -> None:
        """End it now."""
        self._stopped = True

    def check(self) -> None:
        """Go on.

        Raises:
            TimeUp: it is over.
        """
        if self._stopped or time.monotonic() >= self._end:
            raise TimeUp


async def in_thread(work: Callable[[], T], limit: Limit) -> T:
    """Run `work` in a thread; stop its limit when the caller is cancelled."""
    try:
        return await to_thread.run_sync(work, abandon_on_cancel=True)
    except BaseException:
        limit.stop()
        raise


def directory_opener(workspace: Workspace) -> SupportsOpenDirectory | None:
    """Return the backend if its directories can be opened, unless a layer in front of it controls how they are read."""
    if not is_of_this_machine(workspace):
        return None
    layer: object = workspace
    while isinstance(layer, Workspace):
        kind = type(layer)
        if kind.list_dir is not Workspace.list_dir or kind.read_bytes is not Workspace.read_bytes:
            return None
        layer = layer._backend  # pyright: ignore[reportPrivateUsage] - see access._find_layer
    if not isinstance(layer, SupportsOpenDirectory):
        return None
    kind = type(layer)
    definers = {next(each for each in kind.__mro__ if name in vars(each)) for name in ("open_directory", "list_dir")}
    return layer if len(definers) == 1 else None  # a class of its own may list less


class Folder(NamedTuple):
    """An open folder of a walk.

    Attributes:
        descriptor: for `dir_fd`, until the next folder is asked for.
        absolute: with a slash at its end.
        relative: the same below the root: "" or ending in "/".
        names: the wanted entries.
    """

    descriptor: int
    absolute: str
    relative: str
    names: Sequence[str]


class _Frame(NamedTuple):
    folder: Folder
    scope: Scope
    below: Iterator[str]


def scan(opener: SupportsOpenDirectory, root: str, top: str, sieve: Sieve, limit: Limit) -> Iterator[Folder]:
    """Yield the folders below `root` with their wanted names, in no fixed order; as `walk.walk`.

    Args:
        opener: opens the root.
        root: an absolute real path.
        top: the working directory, absolute and real: a link that leads outside counts as a file.
        sieve: what to look for.
        limit: ends it.

    Raises:
        TooMany: as `walk`.
        TimeUp: the limit is over.
        OSError: `root` itself cannot be listed.
    """
    left = sieve.left
    frames = [_enter(opener.open_directory(root), root.rstrip("/") + "/", "", sieve.above, top, sieve, limit)]
    try:
        yield frames[-1].folder
        while frames:
            folder, scope, below = frames[-1]
            name = next(below, None)
            if name is None:
                os.close(frames.pop().folder.descriptor)
                continue
            limit.check()
            absolute = folder.absolute + name
            if len(frames) > DEEPEST:
                left.unreadable.append(absolute)
                continue
            try:
                opened = os.open(name, FOLDER, dir_fd=folder.descriptor)
                frame = _enter(opened, f"{absolute}/", f"{folder.relative}{name}/", scope, top, sieve, limit)
            except OSError:
                left.unreadable.append(absolute)
                continue
            frames.append(frame)
            yield frame.folder
    finally:
        for frame in frames:
            os.close(frame.folder.descriptor)


def _enter(descriptor: int, absolute: str, relative: str, above: Scope, top: str, sieve: Sieve, limit: Limit) -> _Frame:
    """Read an open folder; close it if that fails."""
    try:
        entries = _read_entries(descriptor, absolute, top)
        sieve.count(sum(map(len, entries)), absolute)
        if not all(map(str.isascii, map("".join, entries))):
            entries = Entries(*(split_printable(names, absolute, sieve.left) for names in entries))
        scope = above
        if sieve.ignores:
            is_repository = ".git" in entries.folders or ".git" in entries.files
            has_rules = ".gitignore" in entries.files
            if is_repository or has_rules:
                files = rules_files([".git"] * is_repository + [".gitignore"] * has_rules)
                texts = [_read_rules(descriptor, name) for name in files]
                scope = above.below(absolute, texts, is_repository=is_repository)
        if not relative and sieve.ignores:
            sieve.gone = scope.names()
        names, below = sieve.sift(absolute, relative, entries, scope, limit.check)
    except BaseException:
        os.close(descriptor)
        raise
    return _Frame(Folder(descriptor, absolute, relative, names), scope, iter(below))


def _read_entries(descriptor: int, absolute: str, top: str) -> Entries:
    files: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    linked: list[str] = []
    with os.scandir(descriptor) as found:
        for entry in found:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
            elif entry.is_symlink():
                (linked if _leads_to_folder(entry, absolute + entry.name, top) else links).append(entry.name)
            else:
                links.append(entry.name)  # a socket, a pipe, a device: listed, and not read, as links are
    return Entries(files, folders, links, linked)


def _leads_to_folder(link: os.DirEntry[str], path: str, top: str) -> bool:
    try:
        if not link.is_dir():  # first, because the real path takes a call for each name in it
            return False
    except OSError:
        return False  # a cycle, or no permission to look there
    real = os.path.realpath(path)
    return real == top or real.startswith(top.rstrip("/") + "/")


def _read_rules(descriptor: int, name: str) -> str:
    """Read a file of rules. git follows no link to one."""
    folders: list[int] = []
    try:
        *above, name = name.split("/")
        for each in above:
            descriptor = os.open(each, FOLDER, dir_fd=descriptor)
            folders.append(descriptor)
        data = read_file(descriptor, name, MAX_BYTES + 1)
        return rules_text(data) if len(data) <= MAX_BYTES else ""
    except OSError:
        return ""  # it does not exist, is a folder, or cannot be read
    finally:
        for folder in folders:
            os.close(folder)


def read_file(descriptor: int, name: str, most: int) -> bytes:
    """Read at most `most` bytes of a regular file in an open folder.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    opened = os.open(name, READ, dir_fd=descriptor)
    try:
        data = os.read(opened, most)
        while len(data) < most and (more := os.read(opened, most - len(data))):
            data += more
        return data
    finally:
        os.close(opened)
