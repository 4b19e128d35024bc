"""Record installations of `deep plugins install`, so that `deep plugins restore` can repeat them.

One file, `installed.json` in the user's data folder:
`{"schema": 1, "installed": [{"environment", "name", "requirement", "editable", "version"}]}`.
One process at a time replaces it as a whole. Only its user can read it: an address may hold a password.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from deep_sessions import replace_private

from ...failure import Failure

try:
    import fcntl
except ImportError:  # Windows: two installations at one moment may lose a record
    fcntl = None

__all__ = ["Entry", "file", "forget", "read", "record"]

SCHEMA = 1


@dataclass(frozen=True)
class Entry:
    """One installed distribution.

    Attributes:
        environment: the folder of the environment.
        name: the distribution's canonical name.
        requirement: the argument typed, with an absolute path if it is a path.
        editable: whether it was installed as a link to its folder.
        version: its version at that time.
    """

    environment: str
    name: str
    requirement: str
    editable: bool
    version: str


def file() -> Path:
    """The file of the records (platformdirs: `~/.local/share/deep/installed.json` on Linux)."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "installed.json"


def read() -> list[Entry]:
    """Read every entry, of all environments, in order of installation.

    Raises:
        Failure: the file exists and cannot be read.
    """
    path = file()
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] != SCHEMA:
            raise Failure(f"{path} has schema {data['schema']}; a newer deep-cli wrote it: pip install -U deep-cli")
        return [Entry(**entry) for entry in cast("list[dict[str, Any]]", data["installed"])]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Failure(f"{path} cannot be read ({type(error).__name__}: {error}); fix it or remove it") from error


def record(entries: Sequence[Entry]) -> None:
    """Add entries; each replaces an earlier one of the same distribution and environment.

    Raises:
        Failure: the file cannot be read or written.
    """
    new = {(entry.environment, entry.name) for entry in entries}
    if new:
        with _exclusive():
            _write([*(old for old in read() if (old.environment, old.name) not in new), *entries])


def forget(environment: str, name: str) -> bool:
    """Remove an entry; return whether there was one.

    Raises:
        Failure: the file cannot be read or written.
    """
    with _exclusive():
        old = read()
        remaining = [entry for entry in old if (entry.environment, entry.name) != (environment, name)]
        if len(remaining) < len(old):
            _write(remaining)
        return len(remaining) < len(old)


def _write(entries: Sequence[Entry]) -> None:
    replace_private(
        file(), json.dumps({"schema": SCHEMA, "installed": [asdict(entry) for entry in entries]}, indent=2) + "\n"
    )


@contextmanager
def _exclusive() -> Generator[None]:
    """Read and write exclusively: two installations may end at the same moment."""
    path = file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path.with_suffix(".lock"), "a", opener=lambda name, flags: os.open(name, flags, 0o600)) as lock:
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as error:
        raise Failure(f"{path} is not writable ({error.strerror})") from error
