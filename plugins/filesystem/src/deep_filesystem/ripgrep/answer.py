"""What ripgrep answers, without what it may have searched in vain."""

from __future__ import annotations

import heapq
import os
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ..search import FileMatches, Matches, SearchRequest

__all__ = ["Answer", "Failed", "Gone", "Survey", "check_exit"]

_COUNTED = re.compile(rb"([^\0]*)\0(\d+)\n")
_FAILED = re.compile(r"(?:rg: )?(.*): [^:]* \(os error \d+\)")


class Failed(Exception):
    """ripgrep did not search: then Python does."""


@dataclass
class Gone:
    """What git ignores and ripgrep does not know of, in bytes, as ripgrep prints a path.

    Attributes:
        files: paths of files.
        folders: paths of folders.
    """

    files: frozenset[bytes] = frozenset()
    folders: frozenset[bytes] = frozenset()
    _known: dict[bytes, bool] = field(default_factory=dict[bytes, bool])

    def has(self, path: bytes) -> bool:
        """Whether a path is one of the files, or below one of the folders."""
        if path in self.files:
            return True
        if not self.folders:
            return False
        folder = path.rpartition(b"/")[0]
        found = self._known.get(folder)
        if found is None:
            found = self._known[folder] = folder in self.folders or (b"/" in folder and self.has(folder))
        return found


@dataclass
class Survey:
    """What the walk found.

    Attributes:
        keep: whether a path that ripgrep prints is of the wanted files; None if all are but those that are gone.
        gone: what ripgrep may have searched in vain.
        binary: files that count as binary, in bytes, as ripgrep prints a path.
    """

    keep: Callable[[str], bool] | None = None
    gone: Gone = field(default_factory=Gone)
    binary: frozenset[bytes] = frozenset()


class Answer:
    """Read what ripgrep prints, piece by piece."""

    def __init__(self, request: SearchRequest, above: str, known: Survey, found: Matches) -> None:
        self._request, self._above, self._known, self._found = request, above, known, found
        self._rest = b""
        found.raw = True

    def take(self, data: bytes) -> None:
        """Take a piece, cut anywhere."""
        data = self._rest + data
        if self._request.counts:
            cut = _behind_last_count(data)
            printed, self._rest = _COUNTED.findall(data, 0, cut), data[cut:]
        else:
            *names, self._rest = data.split(b"\0")
            printed = [(name, b"1") for name in names]
        gone, binary = self._known.gone, self._known.binary
        if gone.files or gone.folders:
            printed = [each for each in printed if not gone.has(each[0])]
        if binary:  # one that matches before its first NUL byte was searched
            self._request.left.binary -= sum(name in binary for name, _ in printed)
        if self._known.keep is not None or b"/.deep/" in data:
            self._found.add(self._files(printed))
        else:
            lines = sum(int(count) for _, count in printed)
            self._found.count(len(printed), lines, self._files(heapq.nsmallest(self._request.files, printed)))

    def _files(self, printed: Iterable[tuple[bytes, bytes]]) -> Iterator[FileMatches]:
        for name, count in printed:
            path = self._above + os.fsdecode(name.removeprefix(b"./"))
            if self._known.keep is None or self._known.keep(path):
                yield FileMatches(path, int(count))

    def end(self, errors: str) -> None:
        """Take what ripgrep says about files that it could not read.

        Raises:
            Failed: it says something else.
        """
        unreadable: set[str] = set()
        for line in errors.splitlines():
            failed = _FAILED.fullmatch(line)
            if failed is None:
                raise Failed(line)
            name = failed[1].removeprefix("./")
            if not self._known.gone.has(b"./" + name.encode("utf-8", "surrogateescape")):
                unreadable.add(self._above + name)
        left = self._request.left
        left.unreadable += sorted(unreadable - {*left.unreadable})
        left.large += self._found.drop(lambda path: _size(path) > self._request.max_bytes)


def _size(path: str) -> int:
    try:
        return os.lstat(path).st_size
    except OSError:
        return 0  # it is gone since


def _behind_last_count(data: bytes) -> int:
    """Return where the last whole `path NUL count LF` ends."""
    at = len(data)
    while (at := data.rfind(b"\0", 0, at)) >= 0:
        if end := data.find(b"\n", at) + 1:
            return end
    return 0


def check_exit(code: int) -> None:
    """Look at an exit code of ripgrep.

    Raises:
        Failed: it did not search.
    """
    if code not in (0, 1, 2):  # 2: unreadable files, or wrong arguments; its messages tell which
        raise Failed
