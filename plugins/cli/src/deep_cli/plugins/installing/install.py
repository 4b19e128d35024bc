"""`deep plugins install`, `uninstall` and `restore`: check before, report and record after."""

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

from ...failure import USAGE, Failure
from ...terminal.screen import one_line, redact
from ..advice import rewrite_advice
from .distributions import Dist, dependents, distributions, names_of, plugins_of
from .installer import (
    DEEP_CLI,
    conflict,
    error_lines,
    install_command,
    install_steps,
    perform,
    pins,
    uninstall_command,
    uninstall_steps,
)
from .records import Entry, file, forget, read, record
from .spec import InstallSpec, parse
from .target import PIPX, Target, detect, write_problem

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
    specs = parse(names, editables)
    target = detect()
    refuse(target, [one.text for one in specs])
    for group in [[one] for one in specs] if target.kind == "pipx" else [specs]:
        yield from _install(target, group, upgrade)


def refuse(target: Target, texts: Sequence[str]) -> None:
    """Stop early if this environment cannot be changed.

    Raises:
        Failure: the environment cannot be changed; has what to type instead.
    """
    if target.changeable:
        return
    texts = [redact(text) for text in texts]
    how = install_command(target, texts)
    if target.kind == "temporary":
        lasting = f"pipx install {DEEP_CLI} && pipx inject {DEEP_CLI} {shlex.join(texts)}"
        permanent = lasting if (target.prefix / PIPX).is_file() else how
        raise Failure(f"deep runs in a temporary environment, {target.prefix}. Install it permanently: {permanent}")
    if target.kind == "managed":
        raise Failure(
            f"{target.prefix} is the system's Python, managed by its packages (EXTERNALLY-MANAGED, PEP 668). Make your "
            f"own environment: {how}; or: {_own(texts)}"
        )
    if target.problem:
        raise Failure(
            f"nothing was changed: {target.problem}. With write access, type: {how}; or make your "
            f"own environment: {_own(texts)}"
        )
    if target.kind == "bare":
        uv = shlex.join(["uv", "pip", "install", "--python", target.python, *texts])
        raise Failure(f"{target.prefix} has no pip, and uv is not on the PATH. Type: {how}; or install uv, and: {uv}")
    tool = "uv" if target.kind == "uv-tool" else "pipx"
    raise Failure(f"{target.prefix} belongs to {tool}, which is not on the PATH. Add it to the PATH and type: {how}")


def _own(texts: Sequence[str]) -> str:
    """A new environment with the plugins of this one and the wanted ones."""
    here = {c.record.distribution for c in scan() if c.record.distribution and not c.record.editable}
    return (
        f"python3 -m venv ~/deep && ~/deep/bin/python -m pip install {shlex.join([*sorted(here | {DEEP_CLI}), *texts])}"
    )


def _install(target: Target, specs: Sequence[InstallSpec], upgrade: bool) -> Iterator[ResultLine]:
    before, pinned = distributions(), pins()
    texts = ", ".join(redact(one.text) for one in specs)
    with _folder() as folder:
        for step in install_steps(target, specs, Path(folder), upgrade=upgrade):
            code, output = perform(step)
            if code != 0:
                were = "was" if len(specs) == 1 else "were"
                raise Failure(f"{texts} {were} not installed: {_why(target, specs, output, pinned, code)}")
    changed = {name: version for name, version in pins().items() if pinned.get(name, version) != version}
    if changed:
        changes = ", ".join(f"{name} from {pinned[name]} to {version}" for name, version in changed.items())
        back = install_command(target, [f"{name}=={pinned[name]}" for name in changed])
        raise Failure(f"installing {texts} changed {changes}, which other plugins depend on. To undo: {back}")
    after = distributions()
    installations = [_Installation(target, one, before, after) for one in specs]
    # Record it before loading: a plugin that hangs while it loads is installed all the same.
    problems = _record_entries([entry for one in installations for entry in one.entries])
    for one in installations:
        yield from one.tell()
    along = [c for c in scan() if _is_new(canonical(c.record.distribution or ""), before, after)]
    yield from _statuses([*(c for one in installations for c in one.plugins), *along])
    yield from problems


def _is_new(name: str, before: Mapping[str, Dist], after: Mapping[str, Dist]) -> bool:
    return before.get(name) != after.get(name)


class _Installation:
    """What one argument was installed as.

    Raises:
        Failure: it is not installed, although the installer reported success.
    """

    def __init__(
        self, target: Target, spec: InstallSpec, before: Mapping[str, Dist], after: Mapping[str, Dist]
    ) -> None:
        self.names = names_of(spec, after, before)
        if not self.names:
            raise Failure(
                f"the installer reported success, but {redact(spec.text)} is not in {target.site}; look at "
                "PIP_TARGET, PIP_PREFIX, PIP_USER and pip's configuration"
            )
        self._target = target
        self._new = any(_is_new(name, before, after) for name in self.names)
        self._label = ", ".join(f"{name} {after[name].version}" for name in self.names)
        self.plugins = plugins_of(self.names, after)
        commands = scan(group="deep.commands")
        self._commands = [c.record.name for c in commands if canonical(c.record.distribution or "") in self.names]
        self.entries = [
            Entry(str(target.prefix), name, spec.text, spec.editable, after[name].version)
            for name in self.names
            if self.plugins or self._commands
        ]

    def tell(self) -> Iterator[ResultLine]:
        what = f"Installed {self._label} into" if self._new else f"{self._label} is already installed in"
        yield ResultLine(f"{what} {self._target}.")
        for name in self._commands:
            yield ResultLine(f"  command deep {name}")
        if not self.entries:
            out = uninstall_command(self._target, self.names[0])
            yield ResultLine(
                f"  It has no plugin: no entry point in the group 'deep'. To uninstall it: {out}", ok=False
            )


def _folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="deep-install-")
    except OSError as error:
        raise Failure(
            f"no folder for temporary files is writable ({error}); export TMPDIR=a writable folder"
        ) from error


def _why(target: Target, specs: Sequence[InstallSpec], output: str, pinned: dict[str, str], code: int) -> str:
    clash = conflict(output, pinned)
    if clash:
        # Offer the newest versions, with the plugin: the user decides, for that may break other plugins.
        names = [
            name for name in ("deep-agent-core", "deep-cli", "pydantic-ai-slim") if name in pinned or name == "deep-cli"
        ]
        all_of_it = install_command(target, [one.text for one in specs] + names, flags=["--upgrade"])
        return (
            f"{clash}. deep plugins install keeps these versions; nothing was changed. Choose another version of "
            f"it, or upgrade all: {all_of_it}"
        )
    return redact(one_line(error_lines(output), 600)) or f"the installer ended with exit code {code} and no output"


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


def _record_entries(entries: Sequence[Entry]) -> list[ResultLine]:
    """Record the installation; return a line if that failed."""
    try:
        if entries:
            record(entries)
    except Failure as failure:
        return [ResultLine(f"  Not recorded, so deep plugins restore will not install it: {failure.message}")]
    return []


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
    there = distributions().get(name)
    # Look for it where it is: pip also installs into the user's site directory.
    problem = (write_problem(Path(there.path).parent) if there else "") or target.problem
    if problem or not target.changeable:
        raise Failure(f"{distribution} was not uninstalled: {_instead(target, distribution, problem)}")
    if there is not None and not Path(there.path, "RECORD").is_file():
        again = shlex.join(["deep", "plugins", "install", distribution])
        raise Failure(
            f"{distribution} was not uninstalled: {there.path} has no RECORD of its files. "
            f"Reinstall it, then uninstall it: rm -r {shlex.quote(there.path)} && {again} && "
            f"{shlex.join(['deep', 'plugins', 'uninstall', distribution])}"
        )
    plugins = sorted({c.record.name for c in scan() if canonical(c.record.distribution or "") == name})
    with _folder() as folder:
        for step in uninstall_steps(target, distribution, Path(folder)):
            code, output = perform(step)
            if code != 0 or name in distributions():
                lines = [line for line in output.splitlines() if line.strip()]
                reason = redact(one_line(lines[-1] if lines else f"exit code {code}", 300))
                was = redact(shlex.join(step.command))
                raise Failure(f"{distribution} was not uninstalled: {reason}. The command was: {was}")
    yield ResultLine(f"Uninstalled {distribution}.")
    if others := dependents(name):
        again = shlex.join(["deep", "plugins", "install", distribution])
        yield ResultLine(f"  Still installed, and in need of it: {', '.join(others)}. To have it back: {again}")
    for data in filter(Path.is_dir, map(_data_of, plugins)):
        yield ResultLine(f"  Its data stays in {data}. To delete it: {shlex.join(['rm', '-r', str(data)])}")
    try:
        forget(str(target.prefix), name)
    except Failure as failure:
        yield ResultLine(f"  Still recorded, so deep plugins restore would install it again: {failure.message}")


def _data_of(plugin: str) -> Path:
    """Return the folder that a kernel without `data_dir=` gives this plugin, whether it exists or not."""
    from platformdirs import user_data_path

    return user_data_path("deep") / "plugins" / plugin


def _instead(target: Target, distribution: str, problem: str) -> str:
    """Explain why `deep` cannot uninstall it here, and what to type."""
    names = ",".join(filter(None, [os.environ.get("DEEP_PLUGINS_DISABLE"), distribution]))
    without = f"export DEEP_PLUGINS_DISABLE={shlex.quote(names)}"
    if target.kind == "temporary":
        return f"this is {target}. Start it without {distribution}, or disable it: {without}"
    if target.kind == "managed":
        return f"this is {target}, managed by its packages (EXTERNALLY-MANAGED, PEP 668). To disable it: {without}"
    how = uninstall_command(target, distribution)
    if problem:
        return f"{problem}. With write access, type: {how}; or disable it: {without}"
    if target.kind == "bare":
        uv = uninstall_command(replace(target, kind="uv"), distribution)
        return f"{target.prefix} has no pip, and uv is not on the PATH. Type: {how}; or install uv, and: {uv}"
    tool = "uv" if target.kind == "uv-tool" else "pipx"
    return f"{target.prefix} belongs to {tool}, which is not on the PATH. Add it to the PATH and type: {how}"


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
        Failure: nothing is recorded for it, or `deep` cannot change this environment.
    """
    target = detect()
    environment = str(target.prefix if source is None else source.resolve())
    entries = [entry for entry in read() if entry.environment == environment]
    if not entries:
        others = sorted({entry.environment for entry in read()})
        typed_from = shlex.join(["deep", "plugins", "restore", "--from", *others[:1]])
        more = f" Recorded for: {', '.join(others)} ({typed_from})" if others else ""
        raise Failure(f"{file()} records nothing for {environment}.{more}")
    missing = [entry for entry in entries if not _there(entry)]
    for entry in entries:
        if entry not in missing:
            yield ResultLine(f"{entry.name} is installed.")
    if not missing:
        return
    refuse(target, [entry.requirement for entry in missing])
    for group in [[entry] for entry in missing] if target.kind == "pipx" else [missing]:
        yield from _again(group)


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
