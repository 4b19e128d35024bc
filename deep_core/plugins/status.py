"""Find the plugins and decide which may load, from metadata and configuration, before any import.

Listing plugins needs no more of the kernel than this.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

from entry_point_index import canonical

from .. import __version__
from ..errors import ConfigError, PluginError, suggest
from ..names import NAME
from ..parameters import RESERVED_NAMES
from .config import Config, load_config
from .index import Candidate, PluginRecord, Status, recall, scan

ConfigSource = str | os.PathLike[str] | Mapping[str, Any]
Entries = tuple[tuple[str, str], ...]
"""(entry, source) pairs; an entry is the name of a plugin or a distribution."""


class FoundPlugins(NamedTuple):
    """The plugins that exist, none of them imported.

    Attributes:
        candidates: every plugin with its status.
        config: the configuration, with the lists that code gave on top.
        warnings: messages for the user.
    """

    candidates: tuple[Candidate, ...]
    config: Config
    warnings: tuple[str, ...]

    @property
    def records(self) -> tuple[PluginRecord, ...]:
        """The plugins' records, by name."""
        return tuple(candidate.record for candidate in self.candidates)


def find_plugins(
    *,
    plugins: Sequence[object] = (),
    discover: bool = True,
    read_config: bool = True,
    allow: Iterable[str] | None = None,
    disable: Iterable[str] = (),
    require: Iterable[str] = (),
    config: ConfigSource | None = None,
    remembered: bool = True,
) -> FoundPlugins:
    """Find the plugins and decide which may load; import none.

    Args:
        plugins: modules and objects given by hand.
        discover: whether to look for installed plugins, configuration files and environment variables.
        read_config: False ignores configuration files and environment variables.
        allow: the only plugins that may load; None uses the configuration's list.
        disable: plugins to leave out, in addition to the configuration's.
        require: plugins that must be active, in addition to the configuration's.
        config: a file or mapping that code names.
        remembered: whether an active plugin gets the outcome of its last load.
    """
    settings = load_config(config, files=discover and read_config)
    settings = settings.with_lists(allow=allow, disable=disable or None, require=require or None)
    found = scan() if discover else []
    hand = [candidate_from_object(plugin) for plugin in plugins]
    candidates = sorted([*found, *hand], key=lambda c: (c.record.name, c.record.distribution or ""))
    messages = decide_statuses(candidates, settings)
    if remembered:
        recall(candidates)
    return FoundPlugins(tuple(candidates), settings, tuple(messages))


def candidate_from_object(given: object) -> Candidate:
    """Make a candidate of a module or object that the application gave.

    Its name is the module's last part without `deep_`, or the class's name in snake case.
    """
    if isinstance(given, ModuleType):
        name, path = given.__name__.rpartition(".")[2].removeprefix("deep_"), getattr(given, "__file__", None) or ""
    else:
        kind = given if isinstance(given, type) else type(given)
        name, path = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower(), kind.__module__
    if not NAME.fullmatch(name):
        raise PluginError(f"a plugin given by hand cannot be called {name!r}: a name matches {NAME.pattern}")
    return Candidate(PluginRecord(name=name, distribution=None, version="", path=path), given=given)


def decide_statuses(candidates: Sequence[Candidate], config: Config) -> list[str]:
    """Give every candidate its status before import.

    Args:
        candidates: what the index found; their records change.
        config: the lists, and `[plugins.x] enabled`.

    Returns:
        Warnings.

    Raises:
        ConfigError: an unknown name in `allow` or `require`.
    """
    warnings = _check_lists(candidates, config)
    allow, disable = config.plugin_list("allow"), config.plugin_list("disable") or ()
    for candidate in candidates:
        if candidate.record.status == "active" and (problem := _problem(candidate, allow, disable, config)):
            candidate.record.fail(*problem)
    _fail_duplicates(candidates)
    _check_requirements(candidates)
    return warnings


def entry_source(record: PluginRecord, entries: Iterable[tuple[str, str]]) -> str | None:
    """Return the source of the first entry that names the plugin or, in any spelling, its distribution; or None."""
    for entry, source in entries:
        if entry == record.name or (record.distribution and canonical(entry) == canonical(record.distribution)):
            return source
    return None


def _check_lists(candidates: Sequence[Candidate], config: Config) -> list[str]:
    names = {c.record.name for c in candidates}
    known = names | {canonical(c.record.distribution) for c in candidates if c.record.distribution}
    warnings: list[str] = []
    # Some distributions bring commands and no plugin. A function: looking for them takes milliseconds.
    places = (lambda: candidates, lambda: scan(group="deep.commands"))
    for what, (entry, source) in ((w, e) for w in ("allow", "require", "disable") for e in config.plugin_list(w) or ()):
        if not any(entry_source(c.record, [(entry, source)]) for place in places for c in place()):
            message = f"{source}: plugins.{what} names {entry!r}, which is not installed.{suggest(entry, known)}"
            if what != "disable":
                raise ConfigError(message)
            warnings.append(message)
    for name, source in config.plugin_names().items():
        if name not in names:
            warnings.append(f"{source}: [plugins.{name}] is for a plugin that is not installed.{suggest(name, names)}")
    return warnings


def _problem(
    candidate: Candidate, allow: Entries | None, disable: Entries, config: Config
) -> tuple[Status, str] | None:
    """Return the status and the reason of a plugin that may not load; None for the others."""
    record = candidate.record
    taken = record.name in RESERVED_NAMES
    if taken or not NAME.fullmatch(record.name):
        why = "is a parameter of create_deep_agent" if taken else f"does not match {NAME.pattern}"
        way = "its author must rename the entry point" if record.distribution else "rename its file, module or class"
        return "failed", f"its name {why}; {way}"
    if source := entry_source(record, disable):
        return "disabled", f"disabled in {source}; to enable it, remove it from plugins.disable there"
    settings = config.plugin(record.name)
    if not settings.enabled:
        where = settings.sources["enabled"]
        return "disabled", f"disabled in {where}: [plugins.{record.name}] enabled = false"
    if allow is not None and record.distribution is not None and not entry_source(record, allow):
        where = ", ".join(sorted({source for _, source in allow} or {"code"}))
        return "blocked", f"not on the allow list of {where}; add {record.name!r} to plugins.allow"
    if not candidate.point.accepts_host:
        wanted = candidate.point.host_range
        way = f"pip install 'deep-agent-core{wanted}', or another version of {record.distribution}"
        return "incompatible", f"needs deep-agent-core {wanted}, this is {__version__}: {way}"
    return None


def _fail_duplicates(candidates: Sequence[Candidate]) -> None:
    by_name: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.record.status == "active":
            by_name.setdefault(candidate.record.name, []).append(candidate)
    for name, doubles in by_name.items():
        if len(doubles) < 2:
            continue
        who = "\n".join(f"  {c.record.label}" for c in doubles[:10])
        ways = [c.record.distribution for c in doubles if c.record.distribution]
        way = f"plugins.disable = [{ways[0]!r}], or pip uninstall {ways[0]}" if ways else "give one, or rename it"
        reason = f"{len(doubles)} distributions have a plugin {name!r}:\n{who}\nchoose one: {way}"
        for candidate in doubles:
            candidate.record.fail("failed", reason)


def _check_requirements(candidates: Sequence[Candidate]) -> None:
    providers: dict[str, list[PluginRecord]] = {}
    for candidate in candidates:
        providers.setdefault(canonical(candidate.record.distribution or ""), []).append(candidate.record)
    changed = True
    while changed:  # another plugin may require one that this loop left out
        changed = False
        for candidate in candidates:
            record = candidate.record
            problem = _unmet(candidate, providers) if record.status == "active" else None
            if problem:
                record.fail("needs-plugin", problem)
                changed = True


def _unmet(candidate: Candidate, providers: Mapping[str, Sequence[PluginRecord]]) -> str | None:
    for name in candidate.point.missing:
        if name.startswith("deep-"):
            return f"requires {name}, which is not installed: pip install {name}"
    for name in candidate.point.requires:
        found = providers.get(name, ())
        if found and not any(record.status in ("active", "failed", "needs-extra") for record in found):
            return f"requires {name}, which is {found[0].status}: {found[0].reason}"
    return None
