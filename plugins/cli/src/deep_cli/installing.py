"""`deep plugins install`, `uninstall` and `restore`: what is checked before, what is told and recorded after."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from deep_core import ConfigError
from deep_core.plugin_api import Candidate, canonical, scan

from .advice import typeable
from .failure import USAGE, Failure
from .installed import Dist, brought, distributions, names_of
from .installer import DEEP_CLI, conflict, install_steps, perform, pins, told, typed, typed_uninstall, uninstall_steps
from .recorded import Entry, file, forget, read, record
from .screen import one_line, redact
from .target import PIPX, Target, detect, write_problem
from .wanted import Wanted, parse

if TYPE_CHECKING:
    from deep_core import PluginRecord

__all__ = ["Told", "distribution_of", "forgotten", "install", "restore", "uninstall"]

SECONDS = 20.0
"""How long a plugin that was just installed may take to load, in its own process."""


@dataclass(frozen=True)
class Told:
    """One line about what was done.

    Attributes:
        text: the line.
        ok: whether it is as wanted.
    """

    text: str
    ok: bool = True


# -- install -----------------------------------------------------------------------------------------------------------


def install(names: Sequence[str], editables: Sequence[str] = (), *, upgrade: bool = False) -> Iterator[Told]:
    """Install distributions into the environment that runs this, and tell what each has brought.

    All of them or none, but with pipx, which takes one after the other.

    Raises:
        Failure: this environment cannot be changed from here (with what to type instead), or the installer failed.
    """
    wanted = parse(names, editables)
    target = detect()
    refuse(target, [one.text for one in wanted])
    for group in [[one] for one in wanted] if target.kind == "pipx" else [wanted]:
        yield from _install(target, group, upgrade)


def refuse(target: Target, texts: Sequence[str]) -> None:
    """Stop before anything is done, where nothing can be.

    Raises:
        Failure: with what to type instead.
    """
    if target.changeable:
        return
    texts = [redact(text) for text in texts]
    how = typed(target, texts)
    if target.kind == "temporary":
        lasting = f"pipx install {DEEP_CLI} && pipx inject {DEEP_CLI} {shlex.join(texts)}"
        made = lasting if (target.prefix / PIPX).is_file() else how
        raise Failure(f"deep runs in an environment that was made for one run, {target.prefix}. One that stays: {made}")
    if target.kind == "managed":
        raise Failure(
            f"{target.prefix} is the system's Python, which its packages manage (EXTERNALLY-MANAGED, PEP 668). Make an "
            f"environment of your own: {how}; or: {_own(texts)}"
        )
    if target.problem:
        raise Failure(
            f"nothing was changed: {target.problem}. Type, where it can be written: {how}; or make an environment of "
            f"your own: {_own(texts)}"
        )
    if target.kind == "bare":
        uv = shlex.join(["uv", "pip", "install", "--python", target.python, *texts])
        raise Failure(f"{target.prefix} has no pip, and uv is not on the PATH. Type: {how}; or install uv, and: {uv}")
    tool = "uv" if target.kind == "uv-tool" else "pipx"
    raise Failure(f"{target.prefix} belongs to {tool}, which is not on the PATH. Where it is, type: {how}")


def _own(texts: Sequence[str]) -> str:
    """A new environment with the plugins of this one and what is wanted."""
    here = {c.record.distribution for c in scan() if c.record.distribution and not c.record.editable}
    return (
        f"python3 -m venv ~/deep && ~/deep/bin/python -m pip install {shlex.join([*sorted(here | {DEEP_CLI}), *texts])}"
    )


def _install(target: Target, wanted: Sequence[Wanted], upgrade: bool) -> Iterator[Told]:
    before, pinned = distributions(), pins()
    texts = ", ".join(redact(one.text) for one in wanted)
    with _folder() as folder:
        for step in install_steps(target, wanted, Path(folder), upgrade=upgrade):
            code, output = perform(step)
            if code != 0:
                were = "was" if len(wanted) == 1 else "were"
                raise Failure(f"{texts} {were} not installed: {_why(target, wanted, output, pinned, code)}")
    changed = {name: version for name, version in pins().items() if pinned.get(name, version) != version}
    if changed:
        told = ", ".join(f"{name} from {pinned[name]} to {version}" for name, version in changed.items())
        back = typed(target, [f"{name}=={pinned[name]}" for name in changed])
        raise Failure(f"installing {texts} changed {told}, which other plugins rest on. To go back: {back}")
    after = distributions()
    came = [_Came(target, one, before, after) for one in wanted]
    # Recorded before anything is tried: a plugin that hangs while it is looked at is installed all the same.
    unkept = _kept([entry for one in came for entry in one.entries])
    for one in came:
        yield from one.tell()
    along = [c for c in scan() if _is_new(canonical(c.record.distribution or ""), before, after)]
    yield from _statuses([*(c for one in came for c in one.plugins), *along])
    yield from unkept


def _is_new(name: str, before: Mapping[str, Dist], after: Mapping[str, Dist]) -> bool:
    return before.get(name) != after.get(name)


class _Came:
    """What one thing that was typed has become.

    Raises:
        Failure: it is not installed, whatever the installer said.
    """

    def __init__(self, target: Target, wanted: Wanted, before: Mapping[str, Dist], after: Mapping[str, Dist]) -> None:
        self.names = names_of(wanted, after, before)
        if not self.names:
            raise Failure(
                f"the installer reported success, but {redact(wanted.text)} is not in {target.site}; look at "
                "PIP_TARGET, PIP_PREFIX, PIP_USER and pip's configuration"
            )
        self._target = target
        self._new = any(_is_new(name, before, after) for name in self.names)
        self._label = ", ".join(f"{name} {after[name].version}" for name in self.names)
        self.plugins = brought(self.names, after)
        commands = scan(group="deep.commands")
        self._commands = [c.record.name for c in commands if canonical(c.record.distribution or "") in self.names]
        self.entries = [
            Entry(str(target.prefix), name, wanted.text, wanted.editable, after[name].version)
            for name in self.names
            if self.plugins or self._commands
        ]

    def tell(self) -> Iterator[Told]:
        what = f"Installed {self._label} into" if self._new else f"{self._label} is installed already, in"
        yield Told(f"{what} {self._target}.")
        for name in self._commands:
            yield Told(f"  command deep {name}")
        if not self.entries:
            out = typed_uninstall(self._target, self.names[0])
            yield Told(
                f"  It brings no plugin: no entry point in the group 'deep'. To take it out again: {out}", ok=False
            )


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="deep-install-")
    except OSError as error:
        raise Failure(
            f"no folder for temporary files can be written ({error}); export TMPDIR=a folder of yours"
        ) from error


def _why(target: Target, wanted: Sequence[Wanted], output: str, pinned: dict[str, str], code: int) -> str:
    clash = conflict(output, pinned)
    if clash:
        # Their newest versions, together with the plugin: the person's decision, for it may break other plugins.
        names = [name for name in ("deep-core", "deep-cli", "pydantic-ai-slim") if name in pinned or name == "deep-cli"]
        all_of_it = typed(target, [one.text for one in wanted] + names, flags=["--upgrade"])
        return (
            f"{clash}. deep plugins install leaves these as they are; nothing was changed. Ask for another version of "
            f"it, or change them yourself: {all_of_it}"
        )
    return redact(one_line(told(output), 600)) or f"the installer ended with exit code {code} and said nothing"


def _statuses(plugins: Sequence[Candidate]) -> Iterator[Told]:
    """Each plugin's status; those that may load are loaded, in a child process."""
    from deep_core.plugin_api import find_plugins

    from .probing import Probe, probed

    if not plugins:
        return
    try:
        found = find_plugins(remembered=False)
    except ConfigError as error:
        for candidate in plugins:
            yield Told(
                f"  plugin {candidate.record.label}: whether it loads is not known: {redact(str(error))}", ok=False
            )
        return
    wanted = {(c.record.name, c.record.distribution) for c in plugins}
    candidates = [c for c in found.candidates if (c.record.name, c.record.distribution) in wanted]
    loadable = [c for c in candidates if c.record.status == "active"]
    outcomes = iter(probed([Probe.of_plugin(c, found, None) for c in loadable], SECONDS))
    for candidate in candidates:
        record = candidate.record
        if record.status != "active":
            said = f"{record.label} is {record.status}: {redact(typeable(record.reason))}"
            yield Told(f"  plugin {said}", ok=record.status in ("disabled", "blocked"))
            continue
        outcome = next(outcomes)
        if outcome.problem:
            why = "; deep doctor says why" if outcome.data.get("phase") == "start" else ""
            yield Told(f"  plugin {record.label} {redact(typeable(outcome.problem))}{why}", ok=False)
        else:
            yield Told(f"  plugin {record.label} is active: {', '.join(outcome.data.get('hooks') or ())}")


def _kept(entries: Sequence[Entry]) -> list[Told]:
    """Record what was installed; returns what there is to tell of that."""
    try:
        if entries:
            record(entries)
    except Failure as failure:
        return [Told(f"  It was not recorded, so deep plugins restore will not install it: {failure.message}")]
    return []


# -- uninstall ---------------------------------------------------------------------------------------------------------


def distribution_of(name: str, records: Sequence[PluginRecord]) -> str:
    """The distribution of a plugin, named by the plugin or by the distribution.

    Raises:
        Failure: it is not installed, or two distributions have a plugin of that name.
    """
    from deep_core.plugin_api import entry_source, suggest

    found = sorted(
        {r.distribution for r in records if r.distribution and entry_source(r, [(name, "the command line")])}
    )
    if not found:
        known = {r.name for r in records} | {r.distribution or "" for r in records}
        raise Failure(f"no plugin {name!r} is installed.{suggest(name, known)}", USAGE)
    if len(found) > 1:
        raise Failure(f"plugin {name!r} is in {', '.join(found)}; name one of these", USAGE)
    return found[0]


def uninstall(distribution: str) -> Iterator[Told]:
    """Uninstall a distribution and take it out of what is recorded; no plugin is imported.

    Raises:
        Failure: this environment cannot be changed from here, the installer failed, or the distribution is still there.
    """
    target, name = detect(), canonical(distribution)
    there = distributions().get(name)
    # Where it is, which is not always where a new one would go: pip writes to the user's own site directory, too.
    problem = (write_problem(Path(there.path).parent) if there else "") or target.problem
    if problem or not target.changeable:
        raise Failure(f"{distribution} was not uninstalled: {_instead(target, distribution, problem)}")
    if there is not None and not Path(there.path, "RECORD").is_file():
        again = shlex.join(["deep", "plugins", "install", distribution])
        raise Failure(
            f"{distribution} was not uninstalled: no installer knows its files: there is no RECORD in {there.path}. "
            f"Install it over what is left, then uninstall that: rm -r {shlex.quote(there.path)} && {again} && "
            f"{shlex.join(['deep', 'plugins', 'uninstall', distribution])}"
        )
    with _folder() as folder:
        for step in uninstall_steps(target, distribution, Path(folder)):
            code, output = perform(step)
            if code != 0 or name in distributions():
                lines = [line for line in output.splitlines() if line.strip()]
                said = redact(one_line(lines[-1] if lines else f"exit code {code}", 300))
                was = redact(shlex.join(step.command))
                raise Failure(f"{distribution} was not uninstalled: {said}. The command was: {was}")
    yield Told(f"Uninstalled {distribution}.")
    try:
        forget(str(target.prefix), name)
    except Failure as failure:
        yield Told(f"  It is still recorded, so deep plugins restore would install it again: {failure.message}")


def _instead(target: Target, distribution: str, problem: str) -> str:
    """Why a distribution cannot be uninstalled from here, and what its user can do."""
    disabled = ",".join(filter(None, [os.environ.get("DEEP_PLUGINS_DISABLE"), distribution]))
    without = f"export DEEP_PLUGINS_DISABLE={shlex.quote(disabled)}"
    if target.kind == "temporary":
        return f"this is {target}. Start it without {distribution}, or: {without}"
    if target.kind == "managed":
        return f"this is {target}, which its packages manage (EXTERNALLY-MANAGED, PEP 668). To do without it: {without}"
    how = typed_uninstall(target, distribution)
    if problem:
        return f"{problem}. Type, where it can be written: {how}; or do without it: {without}"
    if target.kind == "bare":
        uv = typed_uninstall(replace(target, kind="uv"), distribution)
        return f"{target.prefix} has no pip, and uv is not on the PATH. Type: {how}; or install uv, and: {uv}"
    tool = "uv" if target.kind == "uv-tool" else "pipx"
    return f"{target.prefix} belongs to {tool}, which is not on the PATH. Where it is, type: {how}"


def forgotten(name: str) -> bool:
    """Take a distribution that is not installed out of what is recorded here; whether it was recorded.

    Raises:
        Failure: the record cannot be read or written.
    """
    return canonical(name) not in distributions() and forget(str(detect().prefix), canonical(name))


# -- restore -----------------------------------------------------------------------------------------------------------


def restore(source: Path | None) -> Iterator[Told]:
    """Install again what is recorded for an environment and is not there; one that fails stops no other.

    Args:
        source: the environment whose record it is; None means the one that runs this.

    Raises:
        Failure: nothing is recorded for it, or this environment cannot be changed from here.
    """
    target = detect()
    environment = str(target.prefix if source is None else source.resolve())
    entries = [entry for entry in read() if entry.environment == environment]
    if not entries:
        others = sorted({entry.environment for entry in read()})
        typed_from = shlex.join(["deep", "plugins", "restore", "--from", *others[:1]])
        more = f" There is of: {', '.join(others)} ({typed_from})" if others else ""
        raise Failure(f"{file()} has nothing of {environment}.{more}")
    missing = [entry for entry in entries if not _there(entry)]
    for entry in entries:
        if entry not in missing:
            yield Told(f"{entry.name} is there.")
    if not missing:
        return
    refuse(target, [entry.requirement for entry in missing])
    for group in [[entry] for entry in missing] if target.kind == "pipx" else [missing]:
        yield from _again(group)


def _again(entries: Sequence[Entry]) -> Iterator[Told]:
    """All at once, which is one run of the installer; where that fails, each on its own."""
    try:
        yield from install(
            [entry.requirement for entry in entries if not entry.editable],
            [entry.requirement for entry in entries if entry.editable],
        )
    except Failure as failure:
        if len(entries) == 1:
            yield Told(f"{entries[0].name}: {failure.message}", ok=False)
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
        return True  # a path or an address: it says no version
