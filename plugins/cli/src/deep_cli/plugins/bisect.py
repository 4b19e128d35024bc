"""`deep plugins bisect`: find the plugin that breaks a command by running it with fewer plugins.

Sort the plugins so that each comes after those it requires: any prefix of the list can then be enabled alone. Search
the shortest prefix with which the command fails; its last plugin is the culprit. The list has n + 1 prefixes, the
empty one included, and "it never fails" is one more answer, so n plugins need ceil(log2(n + 2)) runs: 5 for 16 to 30.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Literal

from deep_core.plugin_api import Candidate, FoundPlugins, canonical

from ..built_in import BUILT_IN
from ..failure import USAGE, Failure
from ..terminal.screen import one_line, redact
from ..terminal.waiting import exit_code
from .probe_runner import end

__all__ = ["Finding", "Run", "disable_variable", "plugins_to_keep", "requirements", "row", "runner", "search"]

NEEDED = {
    "run": ("backends", "demo"), "chat": ("backends", "demo"), "demo": ("backends", "demo", "filesystem"),
}  # fmt: skip
"""Built-in command -> the first-party plugins that it cannot run without."""


@dataclass(frozen=True)
class Run:
    """One run of the command.

    Attributes:
        enabled: the plugins it ran with, besides those that are always kept.
        ok: whether it succeeded.
        ended: `exit code 1`, `SIGSEGV` or `time limit`.
        last_line: the last line on stderr.
    """

    enabled: tuple[str, ...]
    ok: bool
    ended: str
    last_line: str

    def to_json(self) -> dict[str, Any]:
        """One entry of `runs` in `deep plugins bisect --json`."""
        return {"enabled": list(self.enabled), "ok": self.ok, "ended": self.ended, "said": self.last_line}


@dataclass(frozen=True)
class Finding:
    """The result of the search.

    Attributes:
        outcome: `found`; `fails-without` any plugin too; `succeeds-with-all` of them.
        culprits: with `found`, each group that breaks the command: one plugin, or several that break it together.
        complete: whether the search proved that a group breaks it alone and that there is no other.
    """

    outcome: Literal["found", "fails-without", "succeeds-with-all"]
    culprits: tuple[tuple[str, ...], ...] = ()
    complete: bool = False


Try = Callable[[Collection[str]], bool]
"""Run the command with these plugins enabled; return whether it succeeded."""


# -- the list ----------------------------------------------------------------------------------------------------------


def row(candidates: Sequence[Candidate]) -> list[str]:
    """Sort the plugins that would load by name, each after those that it requires."""
    active = {c.record.name: c for c in candidates if c.record.status == "active"}
    out: dict[str, None] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in out or name in above:  # distributions may require each other
            return
        for other in sorted(_dependencies(active[name], active)):
            add(other, (*above, name))
        out[name] = None

    for name in sorted(active):
        add(name, ())
    return list(out)


def _dependencies(candidate: Candidate, active: Mapping[str, Candidate]) -> set[str]:
    """The plugins whose absence gives this one the status `needs-plugin`."""
    required_names = {canonical(name) for name in candidate.point.requires}
    return {
        name
        for name, c in active.items()
        if canonical(c.record.distribution or "") in required_names and c is not candidate
    }


def plugins_to_keep(command: Sequence[str], found: FoundPlugins, keep: Sequence[str]) -> set[str]:
    """The plugins that stay enabled in every run, with those that they require.

    These are the plugins of `--keep`, those that the configuration requires, and, for a command of deep, those that
    provide the command.

    Raises:
        Failure: a plugin of `--keep` does not exist.
    """
    from deep_core.plugin_api import entry_source as source
    from deep_core.plugin_api import suggest

    active = {c.record.name: c for c in found.candidates if c.record.status == "active"}
    for name in keep:
        if not any(source(c.record, [(name, "--keep")]) for c in active.values()):
            raise Failure(f"--keep {name}: no such plugin is active.{suggest(name, active)}", USAGE)
    required = [entry for entry, _ in found.config.plugin_list("require") or ()]
    entries = [(name, "--keep") for name in (*keep, *_parts(command), *required)]
    named = [name for name, c in active.items() if source(c.record, entries)]
    return _with_required(named, requirements(found.candidates))


def _parts(command: Sequence[str]) -> list[str]:
    """Plugins and distributions that a `deep` command needs; none for another program."""
    words = list(command)
    while words and os.path.basename(words[0]).startswith("python"):
        words = words[1:]
        while words and words[0].startswith("-") and words[0] != "-m":
            words = words[1:]
        words = words[1:] if words[:1] == ["-m"] else words
    if not words or os.path.basename(words[0]) not in ("deep", "deep_cli"):
        return []
    verb = next((word for word in words[1:] if not word.startswith("-")), "")
    if verb in BUILT_IN:
        return ["cli", *NEEDED.get(verb, ())]
    from .contributed import plugin_commands

    theirs = plugin_commands().get(verb)
    homes = [c.record.distribution or "" for c in theirs.candidates] if theirs is not None else []
    return ["cli", *NEEDED.get(verb, ()), *homes]


# -- the search --------------------------------------------------------------------------------------------------------


def requirements(candidates: Sequence[Candidate]) -> dict[str, set[str]]:
    """Plugin -> the plugins that it requires, among those that would load."""
    active = {c.record.name: c for c in candidates if c.record.status == "active"}
    return {name: _dependencies(candidate, active) for name, candidate in active.items()}


def search(
    plugins: Sequence[str],
    attempt: Try,
    requires: Mapping[str, Collection[str]] | None = None,
    *,
    thorough: bool = False,
) -> Finding:
    """Find what breaks a command.

    Args:
        plugins: in the order of `row`.
        attempt: runs the command.
        requires: plugin -> the plugins it requires; needed with `thorough`, which tries plugins out of order.
        thorough: also look for partners and further culprits, in about log2(n) runs each.
    """
    shortest = _shortest(plugins, attempt, len(plugins) + 1)
    if shortest == 0:
        return Finding("fails-without")
    if shortest > len(plugins):
        return Finding("succeeds-with-all")
    if not thorough:
        return Finding("found", ((plugins[shortest - 1],),))
    groups: list[tuple[str, ...]] = []
    left = list(plugins)
    while True:
        group = _group(left, shortest, attempt, requires or {})
        groups.append(tuple(group))
        # Without one plugin of the group, the group is harmless, and so are the plugins that require it.
        left = [name for name in left if name != group[-1]]
        if attempt(left):
            return Finding("found", tuple(groups), complete=True)
        shortest = _shortest(left, attempt, len(left))


def _shortest(plugins: Sequence[str], attempt: Try, high: int) -> int:
    """Length of the shortest prefix that fails, at most `high`."""
    return bisect_left(range(high), True, key=lambda length: not attempt(plugins[:length]))


def _group(plugins: Sequence[str], shortest: int, attempt: Try, requires: Mapping[str, Collection[str]]) -> list[str]:
    """The whole group, in order: the last plugin of the shortest prefix that fails, then its partners."""
    group = [plugins[shortest - 1]]
    before = shortest - 1  # how many plugins of the list may still be partners

    def fails(length: int) -> bool:
        enabled = _with_required([*plugins[:length], *group], requires)
        return not attempt([name for name in plugins if name in enabled])

    while before and not fails(0):
        length = bisect_left(range(before), True, key=fails)
        group.insert(0, plugins[length - 1])
        before = length - 1
    return group


def _with_required(names: Sequence[str], requires: Mapping[str, Collection[str]]) -> set[str]:
    out: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in out:
            out.add(name)
            waiting.extend(requires.get(name, ()))
    return out


# -- the runs ----------------------------------------------------------------------------------------------------------


def runner(
    command: Sequence[str], plugins: Sequence[str], seconds: float | None, tell: Callable[[Run, int], None]
) -> Try:
    """Make the function that runs the command with some plugins; it caches results.

    Args:
        command: a program and its arguments.
        plugins: the plugins that may be disabled.
        seconds: time limit of a run, which fails it; None for no limit.
        tell: called after each run with its number.

    Raises:
        Failure: the program does not exist.
    """
    if shutil.which(command[0]) is None:
        raise Failure(f"{command[0]}: no such program; type: deep plugins bisect -- COMMAND ARGUMENTS", USAGE)
    results: dict[frozenset[str], bool] = {}

    def attempt(enabled: Collection[str]) -> bool:
        key = frozenset(enabled)
        if key not in results:
            run = _run(command, [name for name in plugins if name in key], plugins, seconds)
            results[key] = run.ok
            tell(run, len(results))
        return results[key]

    return attempt


def _run(command: Sequence[str], enabled: Sequence[str], plugins: Sequence[str], seconds: float | None) -> Run:
    env = {**os.environ, "DEEP_PLUGINS_DISABLE": disable_variable([name for name in plugins if name not in enabled])}
    with tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(
                command,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,  # a group, so that the command's children end with it
            )
        except OSError as error:
            raise Failure(
                f"{command[0]} cannot be started ({error.strerror}); does it have a first line #!…?", USAGE
            ) from error
        try:
            code = exit_code(child, seconds)
        finally:
            end(child)  # after Ctrl-C too
        last_line = _last_line(errors)
    return Run(tuple(enabled), code == 0, _exit_text(code), last_line)


def disable_variable(names: Sequence[str]) -> str:
    """The value of `DEEP_PLUGINS_DISABLE`: the user's, plus these plugins."""
    return ",".join(filter(None, [os.environ.get("DEEP_PLUGINS_DISABLE"), *names]))


def _last_line(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - 8192))
    lines = [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
    return redact(one_line(lines[-1], 200)) if lines else ""


def _exit_text(code: int | None) -> str:
    if code is None:
        return "time limit"
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
