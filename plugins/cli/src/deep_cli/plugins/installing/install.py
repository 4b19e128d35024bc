"""`deep plugins install`, `uninstall` and `restore`: run the tool of this environment, load the plugins, record."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deep_core import ConfigError
from deep_core.plugin_api import Candidate, canonical, scan

from ...failure import USAGE, Failure
from ...terminal.screen import redact
from ..advice import rewrite_advice
from .distributions import Dist, again, dependents, distributions, names_of, requirements_of
from .receipts import add_to_receipt, remove_from_receipt
from .records import Entry, file, forget, read, record
from .spec import InstallSpec, parse
from .target import Target, detect
from .tools import DEEP_CLI, install_steps, pins, run, typed, uninstall_step

if TYPE_CHECKING:
    from deep_core import PluginRecord

__all__ = ["ResultLine", "distribution_of", "forget_missing", "install", "restore", "uninstall"]

SECONDS = 20.0
"""Seconds in which a plugin that was just installed must load, in its own process."""


@dataclass(frozen=True)
class ResultLine:
    """One line of a result.

    Attributes:
        text: the line.
        ok: whether it succeeded.
    """

    text: str
    ok: bool = True


# -- install -----------------------------------------------------------------------------------------------------------


def install(names: Sequence[str], editables: Sequence[str] = (), *, upgrade: bool = False) -> Iterator[ResultLine]:
    """Install distributions into the environment of this process, and report the plugins of each.

    Installs all or none, except with pipx, which installs one at a time.

    Raises:
        Failure: `deep` cannot change this environment (the message has what to type instead), or the installer failed.
    """
    specs, target = parse(names, editables), detect()
    if target.obstacle:
        raise Failure(f"nothing was installed: {target.obstacle}")
    for group in [[one] for one in specs] if target.kind == "pipx" else [specs]:
        yield from _install(target, group, upgrade)


def _install(target: Target, specs: Sequence[InstallSpec], upgrade: bool) -> Iterator[ResultLine]:
    before = distributions()
    # Where each came from is gone once it is replaced.
    back = {name: again(name, before[name]) for name in _with_plugins() if name in before}
    with _folder() as folder:
        for step in install_steps(target, specs, Path(folder), upgrade=upgrade):
            if run(step) != 0:
                raise Failure(_why(target, [redact(one.text) for one in specs]))
    after = distributions()
    new = {name for name, dist in after.items() if before.get(name) != dist}
    commands = {c.record.name: canonical(c.record.distribution or "") for c in scan(group="deep.commands")}
    plugins = _with_plugins()
    entries: list[Entry] = []
    lines: list[ResultLine] = []
    looked_at = set(new)
    for one in specs:
        installed = names_of(one, after, before)
        if not installed:
            raise Failure(f"the installer reported success, but {redact(one.text)} is not in {target}")
        label = ", ".join(f"{name} {after[name].version}" for name in installed)
        is_new = not new.isdisjoint(installed)
        lines.append(ResultLine(f"Installed {label} into {target}." if is_new else f"{label} is already installed."))
        lines += [ResultLine(f"  command deep {name}") for name, owner in commands.items() if owner in installed]
        brought = {*installed, *(need for name in installed for need in _bundled(name, after, plugins))}
        looked_at |= brought
        if brought.isdisjoint({*plugins, *commands.values()}):
            out = typed(target, "uninstall", installed[:1])
            # Extras of a distribution that was there are no misspelled plugin.
            has_been = not before.keys().isdisjoint(installed) and back.keys().isdisjoint(installed)
            lines.append(ResultLine(f"  It has no plugin: no entry point 'deep'. To uninstall it: {out}", ok=has_been))
            continue
        entries += [Entry(str(target.prefix), name, one.text, one.editable, after[name].version) for name in installed]
        if target.kind == "uv-tool":
            lines += _keep(target, installed[0], one)
    # Record it before loading: a plugin that hangs while it loads is installed all the same.
    lines += _record(entries)
    yield from lines
    loaded = list(_statuses([c for c in scan() if canonical(c.record.distribution or "") in looked_at]))
    yield from loaded
    if not all(line.ok for line in (*lines, *loaded)):
        # If plugins were replaced and one does not load.
        replaced = [name for name in sorted(back) if name in after and after[name].version != before[name].version]
        if was := [word for name in replaced for word in back[name]]:
            yield ResultLine(f"  To go back to what was there: deep plugins install {redact(shlex.join(was))}")


def _with_plugins() -> set[str]:
    """The distributions that have plugins."""
    return {canonical(c.record.distribution or "") for c in scan()}


def _bundled(name: str, after: Mapping[str, Dist], plugins: set[str]) -> set[str]:
    """The distributions whose plugins an empty distribution brings."""
    return set() if name in plugins else plugins.intersection(requirements_of(after[name]))


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="deep-install-")
    except OSError as error:
        raise Failure(
            f"no folder for temporary files is writable ({error}); export TMPDIR=a writable folder"
        ) from error


def _why(target: Target, texts: Sequence[str]) -> str:
    pinned = pins()
    kept = " and ".join(f"{name} {pinned[name]}" for name in ("deep-agent-core", "pydantic-ai-slim") if name in pinned)
    newer = typed(target, "install", ["--upgrade", DEEP_CLI, *pinned, *texts])
    return (
        f"{', '.join(texts)} {'was' if len(texts) == 1 else 'were'} not installed, for the reason above. {kept} stay, "
        f"because all plugins need them. If a plugin needs others: {newer}"
    )


def _keep(target: Target, name: str, spec: InstallSpec) -> Iterator[ResultLine]:
    try:
        add_to_receipt(target.prefix, name, spec)
    except (OSError, ValueError) as error:
        yield ResultLine(
            f"  uv tool upgrade will remove it, because uv's receipt cannot be changed ({error}). To get it back: "
            "deep plugins restore"
        )


def _record(entries: Sequence[Entry]) -> list[ResultLine]:
    try:
        record(entries)
    except Failure as failure:
        return [ResultLine(f"  Not recorded, so deep plugins restore will not install it: {failure.message}")]
    return []


def _statuses(plugins: Sequence[Candidate]) -> Iterator[ResultLine]:
    """Report each plugin's status; load those that may load, in a child process."""
    from deep_core.plugin_api import find_plugins

    from ..probe_runner import Probe, run_probes

    if not plugins:
        return
    try:
        found = find_plugins(remembered=False)
    except ConfigError as error:
        for candidate in plugins:
            yield ResultLine(
                f"  plugin {candidate.record.label}: could not be loaded for a check: {redact(str(error))}", ok=False
            )
        return
    keys = {(c.record.name, c.record.distribution) for c in plugins}
    candidates = [c for c in found.candidates if (c.record.name, c.record.distribution) in keys]
    loadable = [c for c in candidates if c.record.status == "active"]
    outcomes = iter(run_probes([Probe.of_plugin(c, found, None) for c in loadable], SECONDS))
    for candidate in candidates:
        record = candidate.record
        if record.status != "active":
            status = f"{record.label} is {record.status}: {redact(rewrite_advice(record.reason))}"
            yield ResultLine(f"  plugin {status}", ok=record.status in ("disabled", "blocked"))
            continue
        outcome = next(outcomes)
        if outcome.problem:
            why = "; deep doctor shows why" if outcome.data.get("phase") == "start" else ""
            yield ResultLine(f"  plugin {record.label} {redact(rewrite_advice(outcome.problem))}{why}", ok=False)
        else:
            yield ResultLine(f"  plugin {record.label} is active: {', '.join(outcome.data.get('hooks') or ())}")


# -- uninstall ---------------------------------------------------------------------------------------------------------


def distribution_of(name: str, records: Sequence[PluginRecord]) -> str:
    """Find a plugin's distribution by either name.

    Raises:
        Failure: it is not installed, or two distributions have a plugin with that name.
    """
    from deep_core.plugin_api import entry_source, suggest

    matches = sorted(
        {r.distribution for r in records if r.distribution and entry_source(r, [(name, "the command line")])}
    )
    if not matches:
        names = {r.name for r in records} | {r.distribution or "" for r in records}
        raise Failure(f"no plugin {name!r} is installed.{suggest(name, names)}", USAGE)
    if len(matches) > 1:
        raise Failure(f"plugin {name!r} is in {', '.join(matches)}; name one of these", USAGE)
    return matches[0]


def uninstall(distribution: str) -> Iterator[ResultLine]:
    """Uninstall a distribution and remove its record; import no plugin.

    Raises:
        Failure: `deep` cannot change this environment, the installer failed, or the distribution is still there.
    """
    target, name = detect(), canonical(distribution)
    off = ",".join(filter(None, [os.environ.get("DEEP_PLUGINS_DISABLE"), distribution]))
    instead = f"To disable it: export DEEP_PLUGINS_DISABLE={shlex.quote(off)}"
    if target.obstacle:
        raise Failure(f"{distribution} was not uninstalled: {target.obstacle}. {instead}")
    plugins = sorted({c.record.name for c in scan() if canonical(c.record.distribution or "") == name})
    if run(uninstall_step(target, distribution)) != 0 or name in distributions():
        raise Failure(f"{distribution} was not uninstalled, for the reason above. {instead}")
    yield ResultLine(f"Uninstalled {distribution}.")
    if others := dependents(name):
        again = shlex.join(["deep", "plugins", "install", distribution])
        yield ResultLine(f"  Still installed, and in need of it: {', '.join(others)}. To have it back: {again}")
    for data in filter(Path.is_dir, map(_data_of, plugins)):
        yield ResultLine(f"  Its data stays in {data}. To delete it: {shlex.join(['rm', '-r', str(data)])}")
    try:
        if target.kind == "uv-tool":
            remove_from_receipt(target.prefix, name)
        forget(str(target.prefix), name)
    except (Failure, OSError, ValueError) as error:
        yield ResultLine(f"  Still recorded, so an upgrade or deep plugins restore installs it again: {error}")


def _data_of(plugin: str) -> Path:
    """Return the folder that a kernel without `data_dir=` gives this plugin, whether it exists or not."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "plugins" / plugin


def forget_missing(name: str) -> bool:
    """Remove the record of a distribution that is not installed; return whether there was one.

    Raises:
        Failure: the records cannot be read or written.
    """
    return canonical(name) not in distributions() and forget(str(detect().prefix), canonical(name))


# -- restore -----------------------------------------------------------------------------------------------------------


def restore(source: Path | None) -> Iterator[ResultLine]:
    """Install what is recorded for an environment and missing; a failure does not stop the others.

    Args:
        source: the environment with the record; None means the one of this process.

    Raises:
        Failure: nothing is recorded for it.
    """
    environment = str(detect().prefix if source is None else source.resolve())
    recorded = read()
    entries = [entry for entry in recorded if entry.environment == environment]
    if not entries:
        others = sorted({entry.environment for entry in recorded})
        typed_from = shlex.join(["deep", "plugins", "restore", "--from", *others[:1]])
        more = f" Recorded for: {', '.join(others)} ({typed_from})" if others else ""
        raise Failure(f"{file()} records nothing for {environment}.{more}")
    missing = [entry for entry in entries if not _there(entry)]
    for entry in entries:
        if entry not in missing:
            yield ResultLine(f"{entry.name} is installed.")
    if missing:
        yield from _again(missing)


def _again(entries: Sequence[Entry]) -> Iterator[ResultLine]:
    """Install all in one run of the installer; if that fails, one at a time."""
    try:
        yield from install(
            [entry.requirement for entry in entries if not entry.editable],
            [entry.requirement for entry in entries if entry.editable],
        )
    except Failure as failure:
        if len(entries) == 1:
            yield ResultLine(f"{entries[0].name}: {failure.message}", ok=False)
            return
        for entry in entries:
            yield from _again([entry])


def _there(entry: Entry) -> bool:
    from packaging.requirements import InvalidRequirement, Requirement

    dist = distributions().get(entry.name)
    if dist is None:
        return False
    try:
        return Requirement(entry.requirement).specifier.contains(dist.version, prereleases=True)
    except InvalidRequirement:
        return True  # a path or an address has no version
