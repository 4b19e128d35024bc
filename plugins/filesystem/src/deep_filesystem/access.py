"""Find files of the workspace, read them whole or by range, and write only over the expected content."""

from __future__ import annotations

import posixpath
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any, cast

from pydantic_ai.workspaces import Workspace

from deep_core import SupportsGuardedWrite, SupportsRangeRead, SupportsRoute

from .forms import in_other_form
from .paging import BytesSource, Source
from .quoting import escape, unescape
from .seen import digest

__all__ = [
    "Place",
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
_HOST = ("local", "deep-local", "deep-sandbox")
"""Providers whose paths are paths of this machine."""
WHOLE = 4 * 1024 * 1024
"""A file up to this size is read whole and remembered by one hash; larger files are read by page."""


class TooLarge(ValueError):
    """The file is too large to read at once.

    Attributes:
        size: in bytes; None if the backend does not report it.
    """

    def __init__(self, size: int | None, limit: int) -> None:
        super().__init__(f"{size if size is not None else 'too many'} bytes, the limit is {limit}")
        self.size = size
        self.limit = limit


@dataclass(frozen=True)
class Place:
    """A path from the model.

    Attributes:
        shown: the path shown to the model, escaped: relative to the working directory if inside it.
        absolute: absolute and normalized, links not followed; the backend gets this one.
        real: links followed; the key of the session's record.
        lock: a key shared by all names of this file, in this process.
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
    """Show an absolute path, escaped; relative to the working directory, if it is inside it."""
    if path == root:
        return "."
    prefix = root.rstrip("/") + "/"
    return escape(path.removeprefix(prefix))


async def locate(workspace: Workspace, path: str) -> Place:
    """Resolve a path in this workspace. It may be escaped, as messages show it.

    Raises:
        ValueError: it has a NUL byte, or a confined backend rejects it because it leads outside.
    """
    if "\0" in path:
        raise ValueError("a path cannot have a NUL byte")
    root = await workspace.working_dir()
    plain = unescape(path)
    absolute = await workspace.resolve(plain, base=root)
    if plain != path and not await workspace.exists(absolute):
        absolute = await workspace.resolve(path, base=root)  # its name has a backslash
    elif plain.startswith("/") and not absolute.startswith(root.rstrip("/") + "/"):
        absolute = await _inside(workspace, absolute, root)
    absolute = await in_other_form(workspace, absolute, root)
    real = await workspace.realpath(absolute)
    return Place(shown_path(absolute, root), absolute, real, _lock_key(workspace, real))


async def _inside(workspace: Workspace, absolute: str, root: str) -> str:
    """Return the file below the working directory that an absolute path means, if only that one exists.

    Models write `/uploads/a.csv` for `uploads/a.csv`: they learned it from prompts of other systems.
    """
    try:
        if absolute == root or await workspace.exists(absolute):
            return absolute
    except (ValueError, OSError):
        pass  # it leads outside
    inside = posixpath.normpath(root.rstrip("/") + absolute)
    try:
        return inside if await workspace.exists(inside) else absolute
    except (ValueError, OSError):
        return absolute


def is_of_this_machine(workspace: Workspace) -> bool:
    """Whether the files are in a directory of this machine, so that a call takes microseconds."""
    return workspace.ref is not None and workspace.ref.provider in _HOST


def _lock_key(workspace: Workspace, real: str) -> Hashable:
    # Two backend objects over one host directory are one file system. Too fine a key would lose an edit, too coarse a
    # key only causes a wait: so the key is the path alone for all directories of this machine.
    ref = workspace.ref
    if ref is None:
        return id(workspace.backend), real
    return real if ref.provider in _HOST else (ref.provider, ref.id, real)


def _find_layer(workspace: Workspace, ability: str, methods: tuple[str, ...]) -> object | None:
    """Find the outermost layer that has an optional method, unless a policy wrapper is in front of it.

    A wrapper that overrides one of `methods` controls that operation, and calling the backend below it would bypass
    the wrapper; so the ability counts as absent. Attribute lookup, because `isinstance` with a protocol does the same
    in 15 microseconds, at every call of every tool.
    """
    layer: object = workspace
    while not hasattr(layer, ability):
        if not isinstance(layer, Workspace) or any(
            getattr(type(layer), name) is not getattr(Workspace, name) for name in methods
        ):
            return None
        # Pydantic AI has no public way one layer down from a plain Workspace; `backend` skips the wrappers.
        layer = cast("Any", layer)._backend
    return layer


async def _reaches(layer: object, ability: str, path: str) -> bool:
    """Whether a layer with the ability has it at this path."""
    if not hasattr(layer, "route"):
        return True
    backend, _ = await cast("SupportsRoute", layer).route(path)
    return hasattr(backend, ability)


async def range_reader(workspace: Workspace, path: str) -> SupportsRangeRead | None:
    """Return the workspace's function to read part of a file, if it has one."""
    reader = _find_layer(workspace, "read_range", ("read_bytes", "resolve"))
    if reader is None or not await _reaches(reader, "read_range", path):
        return None
    return cast("SupportsRangeRead", reader)


async def _guarded_writer(workspace: Workspace, path: str) -> SupportsGuardedWrite | None:
    writer = _find_layer(workspace, "write_if", ("write_bytes", "resolve"))
    if writer is None or not await _reaches(writer, "write_if", path):
        return None
    return cast("SupportsGuardedWrite", writer)


async def open_source(workspace: Workspace, path: str, limit: int) -> tuple[Source, bytes, int]:
    """Open a file for reading.

    Returns:
        The source, its first bytes (all of them up to `WHOLE` or without range reads), its size.

    Raises:
        TooLarge: the backend cannot read ranges and the file has more than `limit` bytes.
        OSError: from the backend.
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
    """Read a whole file.

    Raises:
        TooLarge: it has more than `limit` bytes; nothing beyond was read.
        OSError: from the backend.
    """
    reader = await range_reader(workspace, path)
    if reader is not None:
        # In one request, such a length would be allocated; files beyond the first read are rare.
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
    """Write a file if it has the expected content. The caller holds the lock of `place`.

    A backend with `write_if` compares right before it replaces the file. For others, compare right before
    `write_bytes`: only a write by another process between the two is lost.

    Returns:
        False if the content's sha256 is not `expected` or, for None, if the file exists; then nothing
        was written.
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
