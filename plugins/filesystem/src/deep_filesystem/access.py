"""Files of the workspace: found, read whole or by range, written only over what is expected to be there."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

from pydantic_ai.workspaces import Workspace, WorkspaceBackend

from .paging import BytesSource, Source
from .seen import digest

__all__ = [
    "Place",
    "SupportsGuardedWrite",
    "SupportsRangeRead",
    "SupportsRoute",
    "TooLarge",
    "is_of_this_machine",
    "locate",
    "open_source",
    "range_reader",
    "read_whole",
    "shown_path",
    "write_over",
]

FIRST_READ = 256 * 1024
"""Bytes of the first read: most files end within it and cost one call, which deep-backends serves without a thread."""
_HOST = ("local", "deep-local")
"""Providers whose paths are this machine's own."""
WHOLE = 4 * 1024 * 1024
"""A file up to this size is read whole, so that what was seen is known by one hash; larger ones by page."""


@runtime_checkable
class SupportsRangeRead(Protocol):
    """A backend that reads part of a file."""

    async def read_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer only where the file ends."""
        ...


@runtime_checkable
class SupportsGuardedWrite(Protocol):
    """A backend that writes a file only over the content that the caller has seen."""

    async def write_if(self, path: str, data: bytes, *, expected: str | None) -> bool:
        """Write if the content's sha256 is `expected` (None: if there is no file); else write nothing, return False."""
        ...


@runtime_checkable
class SupportsRoute(Protocol):
    """A backend made of several. What it can do depends on the path, and its commands do not see all of it."""

    async def route(self, path: str) -> tuple[WorkspaceBackend, str]:
        """The backend that answers for a path, and the path as that one knows it."""
        ...


class TooLarge(ValueError):
    """The file is larger than may be read at once.

    Attributes:
        size: in bytes; None where the backend does not say.
    """

    def __init__(self, size: int | None, limit: int) -> None:
        super().__init__(f"{size if size is not None else 'too many'} bytes, the limit is {limit}")
        self.size = size
        self.limit = limit


@dataclass(frozen=True)
class Place:
    """A path that the model gave.

    Attributes:
        shown: as it is named to the model: relative to the working directory where inside it.
        absolute: absolute and normalised, links not followed; what the backend is given.
        real: links followed; what the session's record is kept under.
        lock: the key that all names of this file have in common, in this process.
    """

    shown: str
    absolute: str
    real: str
    lock: Hashable


@dataclass(frozen=True)
class _RangeSource:
    reader: SupportsRangeRead
    path: str
    head: bytes

    async def read(self, start: int, length: int) -> bytes:
        if start + length <= len(self.head):
            return self.head[start : start + length]
        return await self.reader.read_range(self.path, start, length)


def shown_path(path: str, root: str) -> str:
    """An absolute path relative to the working directory, if it is inside it."""
    if path == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return path[len(prefix) :] if path.startswith(prefix) else path


async def locate(workspace: Workspace, path: str) -> Place:
    """What a path means in this workspace.

    Raises:
        ValueError: a NUL byte in it, or what a confined backend raises for a path that leads outside.
    """
    if "\0" in path:
        raise ValueError("a path cannot have a NUL byte")
    root = await workspace.working_dir()
    absolute = await workspace.resolve(path, base=root)
    real = await workspace.realpath(absolute)
    return Place(shown_path(absolute, root), absolute, real, _lock_key(workspace, real))


def is_of_this_machine(workspace: Workspace) -> bool:
    """Whether the files are in a directory of this machine, so that asking for one takes microseconds."""
    return workspace.ref is not None and workspace.ref.provider in _HOST


def _lock_key(workspace: Workspace, real: str) -> Hashable:
    # Two backend objects over one host directory are one file system. One key too many would lose an edit, one too
    # few only makes someone wait: hence the path alone for all that are directories of this machine.
    ref = workspace.ref
    if ref is None:
        return id(workspace.backend), real
    return real if ref.provider in _HOST else (ref.provider, ref.id, real)


def _offered(workspace: Workspace, ability: str, methods: tuple[str, ...]) -> object | None:
    """The outermost layer that has an optional method, unless a policy wrapper stands before it.

    A wrapper that overrides one of `methods` has a say in that operation, and calling the backend beneath it would
    go around it; then the ability is treated as absent. The attribute is looked for because `isinstance` with a
    protocol, which does the same, takes 15 microseconds, and every call of every tool asks.
    """
    layer: object = workspace
    while not hasattr(layer, ability):
        if not isinstance(layer, Workspace) or any(
            getattr(type(layer), name) is not getattr(Workspace, name) for name in methods
        ):
            return None
        # No public way leads one layer down from a plain Workspace; `backend` leaps over the wrappers.
        layer = cast("Any", layer)._backend
    return layer


async def _reaches(layer: object, ability: str, path: str) -> bool:
    """Whether a layer that has the ability has it at this path."""
    if not hasattr(layer, "route"):
        return True
    backend, _ = await cast("SupportsRoute", layer).route(path)
    return hasattr(backend, ability)


async def range_reader(workspace: Workspace, path: str) -> SupportsRangeRead | None:
    """The workspace's way to read part of the file at an absolute path, if it has one."""
    reader = _offered(workspace, "read_range", ("read_bytes", "resolve"))
    if reader is None or not await _reaches(reader, "read_range", path):
        return None
    return cast("SupportsRangeRead", reader)


async def _guarded_writer(workspace: Workspace, path: str) -> SupportsGuardedWrite | None:
    writer = _offered(workspace, "write_if", ("write_bytes", "resolve"))
    if writer is None or not await _reaches(writer, "write_if", path):
        return None
    return cast("SupportsGuardedWrite", writer)


async def open_source(workspace: Workspace, path: str, limit: int) -> tuple[Source, bytes, int]:
    """A file for reading.

    Returns:
        Where to read, its first bytes (all of them if it is up to `WHOLE` or the backend has no ranges), its size.

    Raises:
        TooLarge: the backend reads no ranges and the file has more than `limit` bytes.
        OSError: as the backend raises it.
    """
    reader = await range_reader(workspace, path)
    if reader is None:
        data = await read_whole(workspace, path, limit)
        return BytesSource(data), data, len(data)
    head = await reader.read_range(path, 0, FIRST_READ)
    if len(head) < FIRST_READ:
        return BytesSource(head), head, len(head)
    size = (await workspace.stat(path)).size
    if size is None or size <= WHOLE:
        data = head + await reader.read_range(path, len(head), WHOLE + 1 - len(head))
        if len(data) <= WHOLE:
            return BytesSource(data), data, len(data)
        size = size or len(data)
    return _RangeSource(reader, path, head), head, size


async def read_whole(workspace: Workspace, path: str, limit: int) -> bytes:
    """All of a file.

    Raises:
        TooLarge: it has more than `limit` bytes; nothing beyond was read.
        OSError: as the backend raises it.
    """
    reader = await range_reader(workspace, path)
    if reader is not None:
        # Asked for at once, such a length would be allocated; files beyond the first read are rare.
        data = await reader.read_range(path, 0, min(FIRST_READ, limit + 1))
        if len(data) == FIRST_READ:
            data += await reader.read_range(path, FIRST_READ, limit + 1 - FIRST_READ)
        if len(data) > limit:
            raise TooLarge((await workspace.stat(path)).size, limit)
        return data
    entry = await workspace.stat(path)
    if entry.is_dir:
        raise IsADirectoryError(path)
    if entry.size is None or entry.size > limit:
        raise TooLarge(entry.size, limit)
    return await workspace.read_bytes(path)


async def write_over(workspace: Workspace, place: Place, data: bytes, *, expected: str | None) -> bool:
    """Write a file if its content is the expected one. The caller holds the lock of `place`.

    A backend with `write_if` compares right before it puts the new file in place. For others the content is read and
    compared once more right before `write_bytes`: what someone else writes between the two is lost, and only that.

    Returns:
        False, and nothing was written, if the content's sha256 is not `expected` or, where that is None, if there is
        a file.
    """
    writer = await _guarded_writer(workspace, place.absolute)
    if writer is not None:
        return await writer.write_if(place.absolute, data, expected=expected)
    try:
        current = digest(await workspace.read_bytes(place.absolute))
    except FileNotFoundError:
        current = None
    if current != expected:
        return False
    await workspace.write_bytes(place.absolute, data)
    return True
