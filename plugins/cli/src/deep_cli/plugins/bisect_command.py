"""`deep plugins bisect` on a terminal: print each run as it ends, then the result."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence

from deep_core.plugin_api import find_plugins

from ..failure import FAILED, INTERRUPTED, Failure
from ..terminal.output import say, say_json
from ..terminal.screen import redact
from .bisect import Finding, Run, disable_variable, plugins_to_keep, requirements, row, runner, search

__all__ = ["bisect"]


def bisect(command: Sequence[str], *, keep: Sequence[str], seconds: float | None, thorough: bool, as_json: bool) -> int:
    """Find the plugin that breaks a command; print runs to stderr, the result to stdout. Return the exit code.

    Args:
        command: a program and its arguments. `deep` alone means this installation.
        keep: plugins that stay enabled.
        seconds: the time limit of one run, None for no limit.
        thorough: also look for partners and further culprits.
        as_json: print the result as JSON.

    Raises:
        Failure: there is no plugin to disable, no such program, or Ctrl-C.
    """
    found = find_plugins(remembered=False)
    always_on = plugins_to_keep(command, found, keep)
    plugins = [name for name in row(found.candidates) if name not in always_on]
    if not plugins:
        raise Failure(f"there is no plugin to disable; kept: {_names(always_on)}", FAILED)
    runs: list[Run] = []

    def tell(run: Run, number: int) -> None:
        runs.append(run)
        say(f"run {number}: {_line(run, plugins)}", err=True)

    attempt = runner(_command(command), plugins, seconds, tell)
    try:
        finding = search(plugins, attempt, requirements(found.candidates), thorough=thorough)
    except KeyboardInterrupt:
        left = ", ".join(_left(plugins, runs))
        raise Failure(f"interrupted after {len(runs)} runs; still suspected: {left}", INTERRUPTED) from None
    if as_json:
        say_json(_json(finding, always_on, runs))
    else:
        say(redact(_result_text(finding, command, always_on, runs)))
    return 0 if finding.outcome == "found" else FAILED


def _command(command: Sequence[str]) -> list[str]:
    """Replace `deep` with this installation: another one on the PATH would have other plugins."""
    return [sys.executable, "-P", "-m", "deep_cli", *command[1:]] if command[0] == "deep" else list(command)


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)) or "none"


def _line(run: Run, plugins: Sequence[str]) -> str:
    with_ = ", ".join(run.enabled) if run.enabled else "none"
    how = "succeeds" if run.ok else f"fails ({run.ended}{': ' + run.last_line if run.last_line else ''})"
    return f"{how} with {len(run.enabled)} of {len(plugins)}: {with_}"


def _left(plugins: Sequence[str], runs: Sequence[Run]) -> list[str]:
    """The plugins that an interrupted search has not ruled out."""
    first = max((len(run.enabled) for run in runs if run.ok), default=0)
    last = min((len(run.enabled) for run in runs if not run.ok), default=len(plugins))
    return list(plugins[first:last]) or list(plugins)


def _result_text(finding: Finding, command: Sequence[str], always_on: set[str], runs: Sequence[Run]) -> str:
    command_line, count = shlex.join(command), f"({len(runs)} runs)"
    if finding.outcome == "succeeds-with-all":
        return f"No plugin breaks it: {command_line} succeeds with all plugins. {count}"
    if finding.outcome == "fails-without":
        last_run = next(run for run in reversed(runs) if not run.enabled)
        kept_too = f"; kept: {_names(always_on)}" if always_on else ""
        return (
            f"No plugin is the cause: {command_line} fails without them too "
            f"({last_run.ended}: {last_run.last_line or 'no output'}){kept_too}. "
            f"If it needs a plugin to run at all, add --keep PLUGIN. {count}"
        )
    lines = [f"{' with '.join(group)} breaks it: {command_line}" for group in finding.culprits]
    if len(finding.culprits) > 1:
        lines.append("Each of these breaks it alone.")
    if any(len(group) > 1 for group in finding.culprits):
        lines.append("Plugins on one line break it together; without one of them it succeeds.")
    off = shlex.quote(disable_variable([group[-1] for group in finding.culprits]))
    lines.append(f"Without it: DEEP_PLUGINS_DISABLE={off} {command_line}")
    if not finding.complete:
        lines.append("To see whether it does so alone and whether others do too: --thorough")
    return "\n".join([*lines, count])


def _json(finding: Finding, always_on: set[str], runs: Sequence[Run]) -> dict[str, object]:
    """The result as JSON."""
    return {
        "schema": 1,
        "outcome": finding.outcome,
        "culprits": [list(group) for group in finding.culprits],
        "complete": finding.complete,
        "kept": sorted(always_on),
        "runs": [run.to_json() for run in runs],
    }
