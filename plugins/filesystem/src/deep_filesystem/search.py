"""grep without ripgrep: read every file below a directory through the workspace; same result."""

from __future__ import annotations

import codecs
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from anyio import fail_after, to_thread
from pydantic_ai.workspaces import Workspace

from .access import range_reader
from .dialect import Dialect
from .globs import Glob
from .linematch import text_of
from .matching import Matching
from .walk import Found, Ignoring, TooMany, walk

__all__ = ["FileMatches", "SearchRequest", "Searched", "search_by_walk"]

HEAD = 64 * 1024
"""Bytes to read first: most binary files have a NUL byte here, and then no more is read."""
PIECE = 4 * 1024 * 1024
"""Bytes of a large file to search at a time."""


@dataclass(frozen=True)
class SearchRequest:
    """A search.

    Attributes:
        root: the absolute real path of a directory or a file.
        is_file: whether it is a file.
        dialect: the pattern.
        wanted: the files to search, by path relative to `root`; None for all.
        max_bytes: larger files are not searched.
        most: maximum lines to show; 0 to count only.
        ignoring: leave out what git ignores, and record it here; None to search everything.
    """

    root: str
    is_file: bool
    dialect: Dialect
    wanted: Glob | None
    max_bytes: int
    most: int
    ignoring: Ignoring | None = None


@dataclass(frozen=True)
class FileMatches:
    """A file with matches.

    Attributes:
        path: absolute.
        count: matching lines.
        shown: number and text of lines, None for a line that is too long; for the first files only.
    """

    path: str
    count: int
    shown: list[tuple[int, str | None]] = field(default_factory=list[tuple[int, str | None]])


@dataclass
class Searched:
    """What a search found.

    Attributes:
        found: the files with matches, sorted by path.
        partial: the search met its time limit, so there may be more.
    """

    found: list[FileMatches] = field(default_factory=list[FileMatches])
    partial: bool = False


async def search_by_walk(workspace: Workspace, request: SearchRequest, seconds: float) -> Searched:
    """Search in Python, for at most `seconds`. Skip unreadable, too large and binary files and links, as ripgrep does.

    Raises:
        TooMany: there are too many files, and none that were searched match.
    """
    result = Searched()
    try:
        with fail_after(seconds):
            await _search(workspace, request, result.found)
    except TimeoutError:
        result.partial = True
    except TooMany:
        if not result.found:
            raise
        result.partial = True
    result.found.sort(key=lambda matches: matches.path)
    return result


async def _search(workspace: Workspace, request: SearchRequest, found: list[FileMatches]) -> None:
    async with Matching(request.dialect) as matching:
        async for file in _files(workspace, request):
            if file.size is not None and file.size > request.max_bytes:
                continue
            try:
                matches = await _match_file(workspace, request, matching, file)
            except (OSError, ValueError):
                continue
            if matches is not None:
                found.append(matches)


async def _files(workspace: Workspace, request: SearchRequest) -> AsyncIterator[Found]:
    if request.is_file:
        yield Found("", request.root, (await workspace.stat(request.root)).size)
        return
    async for file in walk(workspace, request.root, wanted=request.wanted, ignoring=request.ignoring):
        yield file


async def _match_file(
    workspace: Workspace, request: SearchRequest, matching: Matching, file: Found
) -> FileMatches | None:
    count = lines = 0
    shown: list[tuple[int, str | None]] = []
    async for piece in _pieces(workspace, file, request.max_bytes):
        text = text_of(piece) if len(piece) < PIECE // 16 else await to_thread.run_sync(text_of, piece)
        if text is None:
            return None
        matches = await matching.match(text, request.most - len(shown), lines)
        count += matches.count
        shown += matches.shown
        lines += text.count("\n")
    # Check for links only now: for files without a match it does not matter.
    if not count or (not request.is_file and await workspace.realpath(file.absolute) != file.absolute):
        return None
    return FileMatches(file.absolute, count, shown)


async def _pieces(workspace: Workspace, file: Found, limit: int) -> AsyncIterator[bytes]:
    """Yield the file in pieces that end with a line, each with the byte order mark of UTF-16, if any."""
    reader = await range_reader(workspace, file.absolute)
    if reader is None:
        yield await workspace.read_bytes(file.absolute)
        return
    piece = await reader.read_range(file.absolute, 0, min(HEAD, PIECE))
    if len(piece) == HEAD and text_of(piece) is not None:
        piece += await reader.read_range(file.absolute, HEAD, PIECE - HEAD)
    if len(piece) < PIECE:
        yield piece
        return
    mark = next((mark for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if piece.startswith(mark)), b"")
    at, rest = 0, b""
    while piece and at <= limit:
        at += len(piece)
        data = rest + piece
        cut = _behind_last_line(data, mark)
        if cut > len(mark):
            yield data[:cut]
            rest = mark + data[cut:]
        else:
            rest = data
        piece = await reader.read_range(file.absolute, at, PIECE) if len(piece) == PIECE else b""
    if len(rest) > len(mark):
        yield rest


def _behind_last_line(data: bytes, mark: bytes) -> int:
    if not mark:
        return data.rfind(b"\n") + 1
    newline = b"\n\0" if mark == codecs.BOM_UTF16_LE else b"\0\n"
    at = data.rfind(newline)
    while at >= 0 and at % 2:
        at = data.rfind(newline, 0, at + 1)
    return at + 2 if at >= 0 else 0
