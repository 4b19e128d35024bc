"""The installed plugins: entry points of deep, each with a record and how it loaded last. None is imported here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple, cast

from entry_point_index import EntryPoint, Index

from .. import __version__

GROUP = "deep"
"""The entry-point group of plugins."""

MARKER = "agent_plugins.json"
"""The file of a dist-info folder by which a distribution brings skills and MCP servers without code."""

Status = Literal["active", "disabled", "blocked", "incompatible", "needs-plugin", "needs-extra", "failed"]


class PluginRecord:
    """One plugin, whatever its status.

    Attributes:
        name: the name of its entry point.
        distribution: the distribution that installed it; None if given by hand.
        version: that distribution's version; "" if given by hand.
        path: the folder of its dist-info, or the editable project.
        status: before loading, `active` means that the plugin would load; afterwards, that it did.
        reason: for any other status, why, and what to type.
        error: the exception of a plugin that failed, with its traceback.
        import_ms: the duration of the import in milliseconds; None before the import.
        hooks: the hooks that it implements; None before the import.
        asleep: the hooks that it implements of absent plugins, each with that plugin's name.
        editable: whether it is an editable install.
    """

    # Not a dataclass: those import `inspect`, which `deep plugins list` would pay for.
    def __init__(self, name: str, distribution: str | None, version: str, path: str, *, editable: bool = False) -> None:
        self.name, self.distribution, self.version = name, distribution, version
        self.path, self.editable = path, editable
        self.status: Status = "active"
        self.reason = ""
        self.error: BaseException | None = None
        self.import_ms: float | None = None
        self.hooks: tuple[str, ...] | None = None
        self.asleep: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"<PluginRecord {self.label}: {self.status}>"

    @property
    def label(self) -> str:
        """`weather 0.1.0 (acme-weather)`, the plugin's name in errors."""
        dist = f" ({self.distribution})" if self.distribution else " (given by hand)"
        return f"{self.name} {self.version}".rstrip() + dist

    @property
    def summary(self) -> str:
        """`plugin weather 0.1.0 (acme-weather) is disabled: …`, with the reason."""
        return f"plugin {self.label} is {self.status}: {self.reason}".rstrip(": ")

    def fail(self, status: Status, reason: str, error: BaseException | None = None) -> None:
        """Take the plugin out of use for this reason."""
        self.status, self.reason, self.error = status, reason, error


class Candidate(NamedTuple):
    """One plugin, before it loads.

    Attributes:
        record: the plugin's record, shared with the kernel.
        point: its entry point of group `deep`; an empty one if the application gave the plugin by hand.
        given: the module or object, if the application gave it by hand.
    """

    record: PluginRecord
    point: EntryPoint = EntryPoint()
    given: object = None


def plugin_index() -> Index:
    """Return the index of plugins, with its cache in the user's cache folder."""
    from platformdirs import user_cache_path

    cache = user_cache_path("deep") / "plugin-index"  # a hyphen: no plugin has this folder
    return Index(GROUP, "deep-agent-core", __version__, cache, MARKER, reader="deep-folders")


def scan(directories: Sequence[str] | None = None, *, group: str = GROUP) -> list[Candidate]:
    """Return every installed plugin, by name, then by distribution.

    Args:
        directories: where to look; None for the interpreter's site directories.
        group: the entry-point group: `deep`, or one that begins with `deep.`.
    """
    found = [Candidate(_record(point), point) for point in plugin_index().scan(group, directories)]
    return sorted(found, key=lambda c: (c.record.name, c.record.distribution or ""))


def _record(point: EntryPoint) -> PluginRecord:
    name = point.name if point.value else point.name.removeprefix("deep_")  # a guess: entry_points.txt is unreadable
    name = name[:40] if point.value == MARKER else name  # it is the distribution's name, and longer ones match no NAME
    record = PluginRecord(name, point.distribution, point.version, point.root, editable=point.editable)
    if error := point.error:
        reason = f"its metadata cannot be read ({type(error).__name__}: {error}); pip install --force-reinstall"
        record.fail("failed", f"{reason} {record.distribution}", error)
    return record


def shield_pydantic(candidates: Iterable[Candidate]) -> None:
    """Turn pydantic's own plugins off if a distribution's entry points cannot be read.

    Pydantic reads the entry points of every distribution when it builds its first model, and would raise there.
    """
    if any(candidate.record.distribution and not candidate.point.value for candidate in candidates):
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def origin_problem(candidate: Candidate) -> str | None:
    """Return why the plugin must not be imported; None if its modules come from its own distribution."""
    from entry_point_index import misplaced_module  # a list needs less

    found, record = misplaced_module(candidate.point), candidate.record
    if found is None:
        return None
    disable = f"plugins.disable = [{record.name!r}]"
    if found.origin is None:
        # Force: a plain `pip install` skips a distribution whose metadata exists.
        pip = f"pip install --force-reinstall {record.distribution}"
        way = f"install {record.path} again" if record.editable else pip
        return f"its module {found.module!r} does not exist; {way}, or {disable}"
    return (
        f"module {found.module!r} would come from {found.origin}, which {record.distribution} did not install; "
        f"rename that file, or start Python with -P so that the working directory is not searched, or {disable}"
    )


def recall(candidates: Iterable[Candidate]) -> None:
    """Give the records of active candidates the outcome of their last load, unless something has changed since."""
    notes = plugin_index().notes()
    for record, point, _ in candidates:
        outcome = notes.get(point) if record.status == "active" else None
        if outcome is None:
            continue
        record.hooks = tuple(outcome["hooks"]) if outcome["hooks"] is not None else None
        record.import_ms = outcome["import_ms"]
        if outcome["status"] != "active":
            record.fail(cast("Status", outcome["status"]), f"at its last load: {outcome['reason']}")


def remember(candidates: Iterable[Candidate]) -> None:
    """Note the outcomes of a load."""
    notes = plugin_index().notes()
    for record, point, _ in candidates:
        if record.status != "active" and record.error is None:
            continue  # left out before loading
        hooks = list(record.hooks) if record.hooks is not None else None
        took, old = record.import_ms, notes.get(point)
        new = {"status": record.status, "reason": record.reason, "hooks": hooks, "import_ms": took}
        if old is None or new != {**old, "import_ms": took}:  # which differs every time
            notes.set(point, new)
    notes.save()
