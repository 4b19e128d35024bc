"""Commands of plugins: found in metadata (`deep.commands`), checked like plugins, imported when typed."""

from __future__ import annotations

from dataclasses import dataclass

import click

from deep_core.plugin_api import Candidate, FoundPlugins, find_plugins, origin_problem, scan

from ..collector import resume
from ..failure import FAILED, Failure
from ..terminal.screen import label, one_line

__all__ = ["PluginCommand", "plugin_commands"]

GROUP = "deep.commands"
"""The entry-point group."""


@dataclass(frozen=True)
class PluginCommand:
    """One command that a distribution declares.

    Attributes:
        name: the name to type.
        candidates: the distributions that declare it and may be used; all that declare it if none may. Several must be
            groups, which are joined.
        problem: why it cannot be used, "" if metadata and lists show no problem.
    """

    name: str
    candidates: tuple[Candidate, ...]
    problem: str

    @property
    def summary(self) -> str:
        """Its line in `deep --help`: its distribution, or why it cannot be used."""
        who = " and ".join(f"{c.record.distribution} {c.record.version}" for c in self.candidates)
        return f"From {label(who)}." + (f" Not usable: {one_line(self.problem, 160)}" if self.problem else "")

    def load(self) -> click.Command:
        """Import the command.

        Raises:
            Failure: it is not usable, its import failed, or it is not a command; says what to type.
        """
        first, *others = self.candidates
        command = self._joined() if others and not self.problem else self._load(first)
        resume()  # a plugin's command may run for days, and need not make an agent
        return command

    def _joined(self) -> click.Command:
        loaded: list[tuple[str, click.Command]] = []
        failures: list[Failure] = []
        for candidate in self.candidates:
            try:
                loaded.append((str(candidate.record.distribution), self._load(candidate)))
            except Failure as failure:
                failures.append(failure)
        if not loaded:
            raise failures[0]
        from .joined_group import JoinedGroup, can_join

        if can_join([command for _, command in loaded]):
            groups = [(owner, command) for owner, command in loaded if isinstance(command, click.Group)]
            return JoinedGroup(self.name, groups, failures)
        names = [str(candidate.record.distribution) for candidate in self.candidates]
        both = f"{' and '.join(names)} both have a command of this name; pip uninstall {names[-1]}"
        raise Failure(f"command {self.name}: {both}")

    def _load(self, candidate: Candidate) -> click.Command:
        record = candidate.record
        where = f"command {self.name} of plugin {record.distribution} {record.version}"
        problem = self.problem or origin_problem(candidate)
        if problem:
            raise Failure(f"{where}: {problem}")
        try:
            command = candidate.point.load()
        except (Exception, SystemExit) as error:
            from deep_core.plugin_api import explain_failure

            raise Failure(f"{where}: {explain_failure(record, error)}", FAILED) from error
        if not isinstance(command, click.Command):
            raise Failure(
                f"{where}: {candidate.point.value} is a {type(command).__name__}, not a click command; "
                f"pip install -U {record.distribution}, or pip uninstall {record.distribution}"
            )
        return command


def plugin_commands() -> dict[str, PluginCommand]:
    """List every declared command by name; import none.

    Raises:
        ConfigError: the configuration is wrong, so the lists that allow and disable commands are unknown.
    """
    candidates = scan(group=GROUP)
    if not candidates:
        return {}
    plugins = find_plugins()
    by_name: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        by_name.setdefault(candidate.record.name, []).append(candidate)
    return {name: _command(name, them, plugins) for name, them in sorted(by_name.items())}


def _command(name: str, candidates: list[Candidate], plugins: FoundPlugins) -> PluginCommand:
    problems = [_problem(candidate, plugins) for candidate in candidates]
    usable = [candidate for candidate, problem in zip(candidates, problems, strict=True) if not problem]
    return PluginCommand(name, tuple(usable or candidates), "" if usable else problems[0])


def _problem(candidate: Candidate, plugins: FoundPlugins) -> str:
    """Explain why a distribution's command cannot be used, before import, as for plugins."""
    own = candidate.record
    if own.status != "active":
        return own.reason
    siblings = [record for record in plugins.records if record.distribution == own.distribution]
    out = [record for record in siblings if record.status in ("disabled", "blocked")]
    if siblings and len(out) == len(siblings):
        return f"its plugin {out[0].name} is {out[0].status}: {out[0].reason}"
    allow, disable = plugins.config.plugin_list("allow"), plugins.config.plugin_list("disable") or ()
    if not siblings and allow is not None and own.distribution not in {entry for entry, _ in allow}:
        return f"not on the allow list; add {own.distribution!r} to plugins.allow"
    if own.distribution in {entry for entry, _ in disable}:
        return f"{own.distribution} is in plugins.disable"
    return ""
