"""grep: what is searched, what was found, and the search without ripgrep, with the same result."""

from __future__ import annotations

import codecs
import heapq
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from anyio import fail_after, to_thread
from pydantic_ai.workspaces import Workspace

from .access import range_reader
from .codec import Codec, detect
from .dialect import Dialect
from .globs import Glob
from .host import READ, Folder, Limit, TimeUp, directory_opener, in_thread, scan
from .linematch import Lines, is_binary, text_of
from .matching import Matching
from .walk import Found, LeftOut, Sieve, TooMany, walk

__all__ = [
    "FileMatches",
    "Matches",
    "SearchRequest",
    "is_binary_file",
    "match_file",
    "search_by_walk",
    "search_folders",
]

HEAD = 64 * 1024
"""Bytes to read first: most binary files have a NUL byte here, and then no more is read."""
PIECE = 4 * 1024 * 1024
"""Bytes of a large file to search at a time."""
NO_LINES = Lines(0, [])
SLACK = 2_000
"""Files with matches to keep beyond the first before the others are dropped."""


@dataclass(frozen=True)
class SearchRequest:
    """A search.

    Attributes:
        root: the absolute real path of a directory or a file.
        is_file: whether it is a file.
        dialect: the pattern.
        wanted: the files to search; None for all.
        prefix: what `wanted` expects before the path relative to `root`, "" or ending in "/".
        max_bytes: larger files are not searched.
        lines: maximum lines to show; 0 to count only.
        files: maximum files to show.
        counts: whether the lines are counted; else one in a file is enough.
        left: what git ignores is left out, and all that is left out is recorded here.
        hidden: tells of an absolute path whether it belongs to another session.
    """

    root: str
    is_file: bool
    dialect: Dialect
    wanted: Glob | None
    prefix: str
    max_bytes: int
    lines: int
    files: int
    counts: bool
    left: LeftOut
    hidden: Callable[[str], bool]

    def sieve(self) -> Sieve:
        """Return what a walk takes for this search."""
        depth = self.wanted.depth if self.wanted is not None and self.prefix == self.wanted.prefix else None
        return Sieve(self.left, self.wanted, self.prefix, depth, links=False)


@dataclass(frozen=True)
class FileMatches:
    """A file with matches.

    Attributes:
        path: absolute.
        count: matching lines.
        shown: number and text of lines, None for a line that is too long; for the first files only.
        recoded: whether it is not UTF-8, and has matches as `read_file` decodes it only.
    """

    path: str
    count: int
    shown: list[tuple[int, str | None]] = field(default_factory=list[tuple[int, str | None]])
    recoded: bool = False


class Matches:
    """The first files with matches, by path, and how many there are.

    Attributes:
        files: how many files have matches.
        lines: how many lines match.
        partial: whether the search met its limit, so that there may be more.
        raw: whether files that are not UTF-8 were searched as bytes only.
    """

    def __init__(self, request: SearchRequest) -> None:
        self.files = self.lines = 0
        self.partial = self.raw = False
        self._most = request.files
        self._hidden = request.hidden
        self._kept: list[FileMatches] = []

    def add(self, found: Iterable[FileMatches]) -> None:
        """Add files."""
        for matches in found:
            if ".deep" in matches.path and self._hidden(matches.path):
                continue
            self.files += 1
            self.lines += matches.count
            self._kept.append(matches)
        if len(self._kept) > self._most + SLACK:
            self._kept = self.first()

    def count(self, files: int, lines: int, first: Iterable[FileMatches]) -> None:
        """Add files of which only the first are given; none of them is hidden."""
        self.files += files
        self.lines += lines
        self._kept += first
        if len(self._kept) > self._most + SLACK:
            self._kept = self.first()

    def drop(self, wrong: Callable[[str], bool]) -> int:
        """Drop those of the first files of which the path is wrong; return how many."""
        dropped = [each for each in self._kept if wrong(each.path)]
        self._kept = [each for each in self._kept if each not in dropped] if dropped else self._kept
        self.files -= len(dropped)
        self.lines -= sum(each.count for each in dropped)
        return len(dropped)

    def clear(self) -> None:
        """Forget them."""
        self.files = self.lines = 0
        self._kept = []

    def show(self, lines: Mapping[str, list[tuple[int, str | None]]]) -> None:
        """Add lines of the first files, by path."""
        self._kept = [replace(each, shown=lines.get(each.path, each.shown)) for each in self.first()]

    def first(self) -> list[FileMatches]:
        """Return the first files."""
        return heapq.nsmallest(self._most, self._kept, key=lambda matches: matches.path)


async def search_by_walk(workspace: Workspace, request: SearchRequest, seconds: float) -> Matches:
    """Search in Python, for at most `seconds`. Skip unreadable, too large and binary files and links, as ripgrep does.

    Raises:
        TooMany: there are too many files, and none that were searched match.
    """
    found = Matches(request)
    limit = Limit(seconds)
    opener = None if request.is_file else directory_opener(workspace)
    try:
        with fail_after(seconds):
            async with Matching(request.dialect) as matching:
                if request.is_file:
                    size = (await workspace.stat(request.root)).size
                    await _search_file(workspace, request, matching, Found("", request.root, size), found)
                elif opener is None:
                    async for file in walk(workspace, request.root, request.sieve()):
                        await _search_file(workspace, request, matching, file, found)
                else:
                    top = await workspace.realpath(await workspace.working_dir())
                    folders = scan(opener, request.root, top, request.sieve(), limit)
                    search = partial(search_folders, folders, request, matching, found, limit, lines=request.lines)
                    later = await in_thread(search, limit)
                    for file in later:
                        await _search_file(workspace, request, matching, file, found)
    except (TimeoutError, TimeUp):
        found.partial = True
    except TooMany:
        if not found.files:
            raise
        found.partial = True
    return found


def search_folders(
    folders: Iterable[Folder], request: SearchRequest, matching: Matching, found: Matches, limit: Limit, *, lines: int
) -> list[Found]:
    """Search the small files of open folders, in a thread, with at most `lines` lines of each. Return the others.

    Raises:
        TimeUp: the limit is over.
    """
    left = request.left
    later: list[Found] = []
    for folder in folders:
        for name in folder.names:
            limit.check()
            absolute = folder.absolute + name
            try:
                data, size = _read_small(folder.descriptor, name)
            except OSError:
                left.unreadable.append(absolute)
                continue
            if size > request.max_bytes:
                is_large = data is None or not is_binary(data)
                left.large += is_large
                left.binary += not is_large
                continue
            try:
                matches = None if data is None else _match_data(request, matching, data, lines)
            except _BinaryFile:
                left.binary += 1
                continue
            if matches is None:
                later.append(Found(folder.relative + name, absolute, size))
            elif matches.count:
                found.add([FileMatches(absolute, matches.count, matches.shown)])
    return later


class _BinaryFile(Exception):
    """A file that is not searched."""


def _match_data(request: SearchRequest, matching: Matching, data: bytes, lines: int) -> Lines | None:
    """Search a whole small file; None if that could take long.

    Raises:
        _BinaryFile: it is one.
    """
    first, found = not request.counts, NO_LINES
    if not _has_none(request, data):
        head = _head(data) if first else None
        if head is not None and (matches := matching.match_here(head, lines, first=True)) and matches.count:
            return matches
        text = text_of(data)
        if text is None:
            raise _BinaryFile
        found = matching.match_here(text, lines, first=first)
    elif b"\0" in data:
        raise _BinaryFile
    if found is not None and not found.count and request.dialect.foreign:
        codec = _other_codec(data)
        return found if codec is None else matching.match_here(codec.show(data), lines, first=first)
    return found


def _other_codec(data: bytes) -> Codec | None:
    """Return how `read_file` decodes a text that is not UTF-8; None for others."""
    if data.isascii() or _mark(data):
        return None
    try:
        data.decode()
    except UnicodeDecodeError:
        codec = detect(data)
        return None if codec.name == "utf-8" else codec
    return None


def _has_none(request: SearchRequest, data: bytes) -> bool:
    """Whether no line has a match, because none has what each match needs. Decoding most files takes longer."""
    needle = request.dialect.needle
    return needle not in data and not _mark(data)


def _read_small(folder: int, name: str) -> tuple[bytes | None, int]:
    """Return a file's bytes and its size; of a binary file its first bytes, of a large text None."""
    descriptor = os.open(name, READ, dir_fd=folder)
    try:
        data = os.read(descriptor, HEAD)
        if len(data) < HEAD:
            return data, len(data)
        size = os.fstat(descriptor).st_size
        if is_binary(data):
            return data, size
        if size >= PIECE:
            return None, size
        while more := os.read(descriptor, PIECE):
            data += more
        return data, len(data)
    finally:
        os.close(descriptor)


def _head(data: bytes) -> str | None:
    """Return the first lines of a larger file, None for others: where one match is enough, they may have it.

    ripgrep stops there too, and does not see a NUL byte that comes later.
    """
    if len(data) <= HEAD:
        return None
    mark = _mark(data)
    return text_of(data[: _behind_last_line(data[:HEAD], mark)])


def _mark(data: bytes) -> bytes:
    return next((mark for mark in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) if data.startswith(mark)), b"")


def is_binary_file(folder: int, name: str) -> bool:
    """Whether the first bytes of a file in an open folder are those of a binary file.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = os.open(name, READ, dir_fd=folder)
    try:
        data = os.read(descriptor, HEAD // 16)  # has the NUL byte of most
        if len(data) == HEAD // 16 and b"\0" not in data:
            data += os.read(descriptor, 4 * HEAD)
    finally:
        os.close(descriptor)
    return is_binary(data)


async def _search_file(
    workspace: Workspace, request: SearchRequest, matching: Matching, file: Found, found: Matches
) -> None:
    left = request.left
    if file.size is not None and file.size > request.max_bytes:
        left.large += 1
        return
    try:
        matches = await match_file(workspace, request, matching, file)
    except (OSError, ValueError):
        left.unreadable.append(file.absolute)
        return
    if matches is None:
        left.binary += 1
    elif matches.count:
        # Check for links only now: for files without a match it does not matter.
        if not request.is_file and await workspace.realpath(file.absolute) != file.absolute:
            left.links.append(file.absolute)
        else:
            found.add([matches])


async def match_file(
    workspace: Workspace, request: SearchRequest, matching: Matching, file: Found
) -> FileMatches | None:
    """Search one file; None for a binary one.

    Raises:
        OSError, ValueError: it cannot be read.
    """
    found = await _match_pieces(workspace, request, matching, file, text_of)
    if found is None or found.count or not request.dialect.foreign:
        return found
    codecs: list[Codec] = []

    def recode(data: bytes) -> str:
        if not codecs and (codec := _other_codec(data)) is not None:
            codecs.append(codec)
        return codecs[0].show(data) if codecs else text_of(data) or ""

    anywhere = replace(request, dialect=replace(request.dialect, needle=b""))
    again = await _match_pieces(workspace, anywhere, matching, file, recode)
    return found if again is None else replace(again, recoded=again.count > 0)


async def _match_pieces(
    workspace: Workspace, request: SearchRequest, matching: Matching, file: Found, decode: Callable[[bytes], str | None]
) -> FileMatches | None:
    count = lines = 0
    shown: list[tuple[int, str | None]] = []
    async for piece in _pieces(workspace, file, request.max_bytes):
        if not request.counts:
            if count:
                break
            if (
                not lines
                and not _has_none(request, piece)
                and (head := _head(piece))
                and (await matching.match(head, 0)).count
            ):
                return FileMatches(file.absolute, 1)
        if _has_none(request, piece):
            if b"\0" in piece:
                return None
            lines += piece.count(b"\n")
            continue
        text = decode(piece) if len(piece) < PIECE // 16 else await to_thread.run_sync(decode, piece)
        if text is None:
            return None
        matches = await matching.match(text, request.lines - len(shown), lines)
        count += matches.count
        shown += matches.shown
        lines += text.count("\n")
    return FileMatches(file.absolute, count, shown)


async def _pieces(workspace: Workspace, file: Found, limit: int) -> AsyncIterator[bytes]:
    """Yield the file in pieces that end with a line, each with the byte order mark of UTF-16, if any."""
    reader = await range_reader(workspace, file.absolute)
    if reader is None:
        yield await workspace.read_bytes(file.absolute)
        return
    piece = await reader.read_range(file.absolute, 0, min(HEAD, PIECE))
    if len(piece) == HEAD and not is_binary(piece):
        piece += await reader.read_range(file.absolute, HEAD, PIECE - HEAD)
    if len(piece) < PIECE:
        yield piece
        return
    mark = _mark(piece)
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
