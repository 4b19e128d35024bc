"""Cache the record of every SKILL.md by path, time and size, in memory and in the cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

if TYPE_CHECKING:
    from .record import Record

__all__ = ["SkillIndex", "Stamp", "stamp_of"]

FORMAT = 3
"""Version of the file; other versions are ignored. Increase it when `read_record` changes its results."""

Stamp: TypeAlias = "tuple[int, int, int]"
"""(modified in ns, changed in ns, bytes): the change time detects an edit that restores the modification time."""


def stamp_of(status: os.stat_result) -> Stamp:
    """The stamp that identifies a version of a file."""
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size


class SkillIndex:
    """Records by path. Safe to share between threads: it holds files, not sessions.

    Args:
        folder: returns the folder of the cache, with one file per searched directory; None for memory only. If it
            raises OSError, nothing is stored on disk.
    """

    def __init__(self, folder: Callable[[], Path] | None = None) -> None:
        self._folder = folder
        self._records: dict[str, dict[str, tuple[Stamp, Record]]] = {}
        self._lock = threading.Lock()

    def records(self, root: str, *, strict: bool) -> Mapping[str, tuple[Stamp, Record]]:
        """The cached records below a directory. Read-only."""
        key = _key(root, strict)
        with self._lock:
            if key not in self._records:
                self._records[key] = self._load(key)
            return self._records[key]

    def keep(self, root: str, records: dict[str, tuple[Stamp, Record]], *, strict: bool) -> None:
        """Replace the records of a directory; write them if they changed."""
        key = _key(root, strict)
        with self._lock:
            before = self._records.get(key)
            self._records[key] = records
        if before is None or not _same(before, records):
            self._save(key, records)

    def _load(self, key: str) -> dict[str, tuple[Stamp, Record]]:
        out: dict[str, tuple[Stamp, Record]] = {}
        try:
            if self._folder is None:
                return out
            data: Any = json.loads((self._folder() / key).read_bytes())
            if data["format"] == FORMAT:
                for path, (stamp, record) in data["files"].items():
                    mtime, ctime, size = stamp
                    out[path] = ((mtime, ctime, size), _record(record))
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}  # no cache, or a damaged one: read everything again
        return out

    def _save(self, key: str, records: Mapping[str, tuple[Stamp, Record]]) -> None:
        if self._folder is None:
            return
        data = {
            "format": FORMAT,
            "files": {path: (stamp, _compact(record)) for path, (stamp, record) in records.items()},
        }
        with contextlib.suppress(OSError):  # an unwritable cache costs time, but is no error
            folder = self._folder()
            temporary = folder / f"{key}.{os.getpid()}.{threading.get_ident()}.tmp"
            temporary.write_text(json.dumps(data, separators=(",", ":")), encoding="utf-8")
            temporary.replace(folder / key)


def _key(root: str, strict: bool) -> str:
    digest = hashlib.sha256(f"{strict} {root}".encode(errors="surrogateescape")).hexdigest()
    return f"index-{digest[:24]}.json"


def _same(a: Mapping[str, tuple[Stamp, Record]], b: Mapping[str, tuple[Stamp, Record]]) -> bool:
    return a.keys() == b.keys() and all(a[path][0] == b[path][0] for path in a)


def _compact(record: Record) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if value}


def _record(data: dict[str, Any]) -> Record:
    """Load a record from JSON and check its types, because its content goes into prompts.

    Raises:
        TypeError, ValueError: `_compact` did not write it.
    """
    from .record import Record  # not needed without skills

    data = {**data}
    if not data.keys() <= Record.__dataclass_fields__.keys():
        raise ValueError("unknown keys")
    for key in ("name", "description", "license", "compatibility"):
        if not isinstance(data.get(key, ""), str):
            raise TypeError(key)
    data["allowed_tools"] = tuple(_texts(data.get("allowed_tools", ())))
    metadata = cast("dict[str, str]", data.get("metadata", {}))
    _texts(metadata.values())
    data["metadata"] = metadata
    data["remarks"] = tuple((int(line), str(message), bool(fatal)) for line, message, fatal in data.get("remarks", ()))
    return Record(**data)


def _texts(values: Iterable[object]) -> list[str]:
    out = list(values)
    if not all(isinstance(value, str) for value in out):
        raise TypeError("text expected")
    return cast("list[str]", out)
