"""What became of each plugin when it was last loaded, kept in the user's cache so that a list need not import."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from .index import Candidate

__all__ = ["recall", "remember"]

FIELDS = {"stamp", "status", "reason", "hooks", "import_ms"}
"""What is kept of a plugin; an entry without one of these, of another version, counts as none."""


def _file() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("deep") / "plugins.json"


def _stamp(candidate: Candidate) -> str | None:
    try:
        return f"{candidate.value} {os.stat(candidate.dist_info).st_mtime_ns}"
    except OSError:
        return None


def _read() -> dict[str, dict[str, Any]]:
    try:
        data: Any = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # no cache, or one that cannot be read: nothing is known
    entries: list[tuple[str, Any]] = list(data.items()) if isinstance(data, dict) else []  # type: ignore[arg-type]
    return {key: entry for key, entry in entries if isinstance(entry, dict) and set(cast("Any", entry)) >= FIELDS}


def recall(candidates: Iterable[Candidate]) -> None:
    """Give the records of active candidates the outcome of their last load, where they have not changed since."""
    known = _read()
    for candidate in candidates:
        entry = known.get(f"{candidate.dist_info}#{candidate.record.name}")
        if entry is None or candidate.record.status != "active" or entry["stamp"] != _stamp(candidate):
            continue
        candidate.record.hooks = tuple(entry["hooks"]) if entry["hooks"] is not None else None
        candidate.record.import_ms = entry["import_ms"]
        if entry["status"] != "active":
            candidate.record.fail(entry["status"], entry["reason"])


def remember(candidates: Iterable[Candidate]) -> None:
    """Store the outcomes of a load. A cache that cannot be written is ignored: the next list knows less."""
    known = _read()
    changed = False
    for candidate in candidates:
        record = candidate.record
        stamp = _stamp(candidate)
        if record.distribution is None or stamp is None or record.status not in ("active", "failed", "needs-extra"):
            continue
        key = f"{candidate.dist_info}#{record.name}"
        hooks = list(record.hooks) if record.hooks is not None else None
        entry = {"stamp": stamp, "status": record.status, "reason": record.reason, "hooks": hooks}
        old = known.get(key)
        if old is None or {k: old.get(k) for k in entry} != entry:
            known[key] = {**entry, "import_ms": record.import_ms}
            changed = True
    if changed:
        with contextlib.suppress(OSError):
            file = _file()
            file.parent.mkdir(parents=True, exist_ok=True)
            temporary = file.with_suffix(f".{os.getpid()}.tmp")
            temporary.write_text(json.dumps(known), encoding="utf-8")
            temporary.replace(file)
