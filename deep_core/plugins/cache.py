"""Cache what the kernel read of each distribution and how its plugins loaded: one file an environment.

The cache saves time and decides nothing: the kernel ignores a file that is missing, damaged, unwritable or of another
environment, and an entry of a distribution that has changed since.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from .. import __version__

if TYPE_CHECKING:
    from .metadata import Metadata

FORMAT = 2
"""Changes with the fields of `Entry`, `Outcome` and `Metadata`."""


class Outcome(TypedDict):
    """How a plugin loaded, and the stamp of its code at that time."""

    code: list[int]
    status: str
    reason: str
    hooks: list[str] | None
    import_ms: float | None


class Entry(TypedDict):
    """One distribution.

    Attributes:
        stamp: of the files in its dist-info folder.
        metadata: of the distribution.
        outcomes: by plugin.
    """

    stamp: list[int]
    metadata: Metadata
    outcomes: dict[str, Outcome]


def stamp(paths: Iterable[str]) -> list[int]:
    """Return the number of files, their size, the sum of their times, and the newest time.

    An installer may restore a file's modification time; the inode's change time shows a reinstall.
    """
    stats = [os.stat(path) for path in paths]
    times = [time for stat in stats for time in (stat.st_mtime_ns, stat.st_ctime_ns)]
    return [len(stats), sum(stat.st_size for stat in stats), sum(times), max(times, default=0)]


def load() -> dict[str, Entry]:
    """Return what is cached for this environment, by the path of the dist-info folder."""
    file, environment = _place()
    try:
        header, check, content = file.read_bytes().split(b"\n", 2)
        if header == environment and int(check) == zlib.crc32(content):
            return json.loads(content)
    except (OSError, ValueError):
        pass  # no cache, or a damaged one
    return {}


def store(entries: Mapping[str, Entry]) -> None:
    """Replace this environment's cache; drop distributions and environments that no longer exist."""
    import threading

    file, environment = _place()
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


def _drop_if_gone(file: Path) -> None:
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError), file.open("rb") as lines:
        if not os.path.isdir(str(json.loads(lines.readline())[0])):
            file.unlink()


def _place() -> tuple[Path, bytes]:
    """Return this environment's file and its first line: everything that affects how a distribution is read."""
    from sysconfig import get_platform

    from platformdirs import user_cache_path

    interpreter = [sys.prefix, sys.implementation.cache_tag, get_platform()]
    name = f"{zlib.crc32(json.dumps(interpreter).encode()):08x}.json"
    header = json.dumps([*interpreter, sys.version, __version__, FORMAT]).encode()
    return user_cache_path("deep") / "plugin-index" / name, header  # a hyphen: no plugin has this folder
