"""Remember how each plugin loaded, so that a list need not import it.

An outcome holds for the code it was seen with. The kernel forgets it when a file of the plugin changes, and when
something is installed or uninstalled beside it, which may be the missing library.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import cast

from . import cache
from .index import Candidate, Status, module_file

MOST = 500
"""The most files and folders of a package that are stamped."""
STARTED = time.time_ns()
"""Before any plugin is imported: code that changed later may not be what was imported."""


def recall(candidates: Iterable[Candidate]) -> None:
    """Give the records of active candidates the outcome of their last load, unless something has changed since."""
    known = cache.load()
    for candidate in candidates:
        record, entry = candidate.record, _entry(candidate, known)
        outcome = entry["outcomes"].get(record.name) if entry and record.status == "active" else None
        if outcome is None or outcome["code"] != _code(candidate):
            continue
        record.hooks = tuple(outcome["hooks"]) if outcome["hooks"] is not None else None
        record.import_ms = outcome["import_ms"]
        if outcome["status"] != "active":
            record.fail(cast("Status", outcome["status"]), f"at its last load: {outcome['reason']}")


def remember(candidates: Iterable[Candidate]) -> None:
    """Cache the outcomes of a load."""
    known, changed = cache.load(), False
    for candidate in candidates:
        record, entry = candidate.record, _entry(candidate, known)
        if entry is None or (record.status != "active" and record.error is None):
            continue  # given by hand, or left out before loading
        code, old = _code(candidate), entry["outcomes"].get(record.name)
        if code is None or code[-1] > STARTED:
            continue
        hooks = list(record.hooks) if record.hooks is not None else None
        took, status = record.import_ms, record.status
        new = cache.Outcome(code=code, status=status, reason=record.reason, hooks=hooks, import_ms=took)
        if old is None or new != {**old, "import_ms": took}:  # which differs every time
            entry["outcomes"][record.name] = new
            changed = True
    if changed:
        cache.store(known)


def _entry(candidate: Candidate, known: Mapping[str, cache.Entry]) -> cache.Entry | None:
    entry = known.get(str(candidate.dist_info))
    return entry if entry and entry["stamp"] == candidate.stamp else None


def _code(candidate: Candidate) -> list[int] | None:
    """Stamp the plugin's code: the time of its site directory, then what `cache.stamp` says of its files."""
    try:
        sources = islice(_sources(module_file(candidate)), MOST)
        return [os.stat(candidate.dist_info.parent).st_mtime_ns, *cache.stamp(sources)]
    except Exception:  # noqa: BLE001 - any finder may raise: the outcome is not remembered
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
