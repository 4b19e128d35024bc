"""Cache what the index read of each distribution, and what the application noted: one file an environment.

The cache saves time and decides nothing: the index ignores a file that is missing, damaged, unwritable or of another
environment, and an entry of a distribution that has changed since.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

if TYPE_CHECKING:
    from .index import EntryPoint
    from .metadata import Metadata

FORMAT = 3
"""Changes with the fields of `Entry`, `Note` and `Metadata`."""
MOST = 500
"""The most files and folders of a package that are stamped."""
STARTED = time.time_ns()
"""Before the application imports what it found: code that changed later may not be what was imported."""


class Note(TypedDict):
    """What the application noted about an entry point, and the stamp of its code at that time."""

    code: list[int]
    content: dict[str, Any]


class Entry(TypedDict):
    """One distribution.

    Attributes:
        stamp: of the files in its dist-info folder.
        metadata: of the distribution.
        notes: by group and name.
    """

    stamp: list[int]
    metadata: Metadata
    notes: dict[str, Note]


def stamp(paths: Iterable[str]) -> list[int]:
    """Return the number of files, their size, the sum of their times, and the newest time.

    An installer may restore a file's modification time; the inode's change time shows a reinstall.
    """
    stats = [os.stat(path) for path in paths]
    times = [time for stat in stats for time in (stat.st_mtime_ns, stat.st_ctime_ns)]
    return [len(stats), sum(stat.st_size for stat in stats), sum(times), max(times, default=0)]


class Cache(NamedTuple):
    """A folder with a file for each environment.

    Attributes:
        folder: of this index alone.
        key: what else affects how a distribution is read: group, host and the like.
    """

    folder: Path
    key: Sequence[str]

    def load(self) -> dict[str, Entry]:
        """Return what is cached for this environment, by the path of the dist-info folder."""
        file, environment = self._place()
        try:
            header, check, content = file.read_bytes().split(b"\n", 2)
            if header == environment and int(check) == zlib.crc32(content):
                return json.loads(content)
        except (OSError, ValueError):
            pass  # no cache, or a damaged one
        return {}

    def store(self, entries: Mapping[str, Entry]) -> None:
        """Replace this environment's cache; drop distributions and environments that no longer exist."""
        import threading

        file, environment = self._place()
        content = json.dumps({path: entry for path, entry in entries.items() if os.path.isdir(path)}).encode()
        temporary = file.with_suffix(f".{threading.get_native_id()}")  # no other thread or process has it
        with contextlib.suppress(OSError):  # an unwritable cache is none
            file.parent.mkdir(parents=True, exist_ok=True)
            try:
                temporary.write_bytes(b"%b\n%d\n%b" % (environment, zlib.crc32(content), content))
                temporary.replace(file)
            finally:
                temporary.unlink(missing_ok=True)
            for other in file.parent.iterdir():
                _drop_if_gone(other)

    def _place(self) -> tuple[Path, bytes]:
        """Return this environment's file and its first line: everything that affects how a distribution is read."""
        from sysconfig import get_platform

        interpreter = [sys.prefix, sys.implementation.cache_tag, get_platform()]
        name = f"{zlib.crc32(json.dumps(interpreter).encode()):08x}.json"
        return self.folder / name, json.dumps([*interpreter, sys.version, FORMAT, *self.key]).encode()


def _drop_if_gone(file: Path) -> None:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError), file.open("rb") as lines:
        if not os.path.isdir(str(json.loads(lines.readline())[0])):
            file.unlink()


class Notes:
    """What an application wrote down about entry points, in the file of the cache.

    A note holds for the code that it was made with. It is forgotten when a Python file of the entry point's package
    changes, and when something is installed or uninstalled beside it, which may be the missing library.
    """

    def __init__(self, cache: Cache) -> None:
        self._cache, self._known = cache, cache.load()
        self._new: list[tuple[EntryPoint, Note]] = []

    def get(self, point: EntryPoint) -> Mapping[str, Any] | None:
        """Return what was noted; None if nothing was, or something has changed since."""
        entry = _entry(self._known, point)
        note = entry["notes"].get(f"{point.group}:{point.name}") if entry else None
        return note["content"] if note and note["code"] == _code(point) else None

    def set(self, point: EntryPoint, content: Mapping[str, Any]) -> None:
        """Note something that JSON can hold; `save` writes it.

        Nothing is noted for an entry point that no scan could read, nor for code that is newer than this process,
        because the process may have imported the older code.
        """
        code = _code(point) if point.stamp else None
        if code and code[-1] <= STARTED:
            self._new.append((point, Note(code=code, content={**content})))

    def save(self) -> None:
        """Write the cache if `set` noted something."""
        if not self._new:
            return
        self._known = self._cache.load()  # as others have left it meanwhile
        for point, note in self._new:
            if entry := _entry(self._known, point):
                entry["notes"][f"{point.group}:{point.name}"] = note
        self._new.clear()
        self._cache.store(self._known)


def _entry(known: Mapping[str, Entry], point: EntryPoint) -> Entry | None:
    entry = known.get(str(point.dist_info))
    return entry if entry and entry["stamp"] == point.stamp else None


def _code(point: EntryPoint) -> list[int] | None:
    """Stamp the entry point's code: the time of its site directory, then what `stamp` says of its files."""
    from .origin import module_file

    try:
        sources = islice(_sources(module_file(point)), MOST)
        return [os.stat(point.dist_info.parent).st_mtime_ns, *stamp(sources)]
    except Exception:  # noqa: BLE001 - any finder may raise: then nothing is noted
        return None


def _sources(file: str | None) -> Iterator[str]:
    if file is None:
        return
    folder, name = os.path.split(file)
    if not name.startswith("__init__."):
        yield file
        return
    for path, folders, names in islice(os.walk(folder), MOST):
        folders[:] = sorted(name for name in folders if name.isidentifier() and name != "__pycache__")
        yield from (os.path.join(path, name) for name in sorted(names) if name.endswith(".py"))
