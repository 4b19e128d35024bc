"""Commands of plugins: found in metadata (`deep.commands`), checked like plugins, imported when typed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

import click

from deep_core.plugin_api import Candidate, FoundPlugins, find_plugins, origin_problem, scan

from .collector import resume
from .failure import FAILED, Failure
from .screen import label, one_line

__all__ = ["PluginCommand", "plugin_commands"]

GROUP = "deep.commands"
"""The entry-point group."""


@dataclass(frozen=True)
class PluginCommand:
    """One command that a distribution declares.

    Attributes:
        name: the name to type.
        candidates: the distributions that declare it; several are an error when it is typed.
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
        record = self.candidates[0].record
        where = f"command {self.name} of plugin {record.distribution} {record.version}"
        problem = self.problem or origin_problem(self.candidates[0])
        if problem:
            raise Failure(f"{where}: {problem}")
        try:
            command = self._import()
        except (Exception, SystemExit) as error:
            from deep_core.plugin_api import explain_failure

            raise Failure(f"{where}: {explain_failure(record, error)}", FAILED) from error
        if not isinstance(command, click.Command):
            raise Failure(
                f"{where}: {self.candidates[0].value} is a {type(command).__name__}, not a click command; "
                f"pip install -U {record.distribution}, or pip uninstall {record.distribution}"
            )
        resume()  # a plugin's command may run for days, and need not make an agent
        return command

    def _import(self) -> Any:
        candidate = self.candidates[0]
        value: Any = importlib.import_module(candidate.module)
        for part in filter(None, candidate.value.partition(":")[2].partition("[")[0].strip().split(".")):
            value = getattr(value, part)
        return value


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
    return {name: PluginCommand(name, tuple(them), _problem(them, plugins)) for name, them in sorted(by_name.items())}


def _problem(candidates: list[Candidate], plugins: FoundPlugins) -> str:
    """Explain why a command cannot be used, before import, as for plugins."""
    if len(candidates) > 1:
        names = [str(c.record.distribution) for c in candidates]
        return f"{' and '.join(names)} both have a command of this name; pip uninstall {names[-1]}"
    own = candidates[0].record
    if own.status != "active":
        return own.reason
    siblings = [record for record in plugins.records if record.distribution == own.distribution]
    out = [record for record in siblings if record.status in ("disabled", "blocked")]
    if siblings and len(out) == len(siblings):
        return f"its plugin {out[0].name} is {out[0].status}: {out[0].reason}"
    allowed = {entry for entry, _ in plugins.lists.allow or ()}
    if not siblings and plugins.lists.allow is not None and own.distribution not in allowed:
        return f"not on the allow list; add {own.distribution!r} to plugins.allow"
    if own.distribution in {entry for entry, _ in plugins.lists.disable}:
        return f"{own.distribution} is in plugins.disable"
    return ""
