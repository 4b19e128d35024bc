"""The checks of `deep doctor`, one function each. No check imports a plugin; probes run in child processes."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

from deep_sessions import PROVIDER_KEYS

from deep_core import ConfigError
from deep_core.plugin_api import Candidate, FoundPlugins, canonical, find_plugins, find_program, scan, suggest

from ..errors import no_model
from ..flags import BACKEND
from ..plugins.installing.target import Target, detect
from ..plugins.installing.tools import rewrite_pip, typed
from ..plugins.probe import SLOW_MS
from ..plugins.probe_runner import Outcome, Probe, run_probes
from ..plugins.untrusted import plugin_options
from ..terminal.screen import redact

__all__ = ["Check", "examine"]

PYDANTIC_PLUGINS = "PYDANTIC_DISABLE_PLUGINS"
NEEDS_IT = "the configured backend `sandbox` needs it"
SEE_PLUGINS = "fix or disable the plugins above, then run deep doctor again"


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: the subject; `plugin:<name>` for a plugin.
        ok: whether it passed.
        message: the result.
        fix: what to type, "" if there is nothing to fix.
        plugin: the plugin concerned, None for none.
    """

    name: str
    ok: bool
    message: str
    fix: str = ""
    plugin: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The check as JSON."""
        return asdict(self)


def examine(config: Path | None, seconds: float) -> Iterator[Check]:
    """Run all checks in order and yield each when it is done; redact the environment's secrets.

    Args:
        config: a configuration file; it is trusted.
        seconds: time limit of one probe.
    """
    target = detect()
    plugins = {canonical(c.record.distribution or "") for c in scan()}
    for check in _examine(config, seconds, target):
        message, fix = (redact(rewrite_pip(target, text, plugins)) for text in (check.message, check.fix))
        yield Check(check.name, check.ok, message, fix, check.plugin)


def _examine(config: Path | None, seconds: float, target: Target) -> Iterator[Check]:
    yield _python()
    yield from _versions()
    yield _environment(target)
    yield from _folders()
    broken = list(_unreadable(target))
    yield from broken
    # pydantic reads the entry points of every distribution; one that does not parse would end it, here and in the
    # probes. A check above reports it; without pydantic's own plugins the other checks can run.
    if broken:
        os.environ[PYDANTIC_PLUGINS] = "__all__"
    found: FoundPlugins | None = None
    try:
        found = find_plugins(config=config, remembered=False)
    except ConfigError as error:
        yield Check("config", False, str(error), "fix that key; `deep config schema` shows what is accepted")
    yield _ripgrep()
    agent = _agent_section(found) if found is not None else None
    yield _bubblewrap(needed=found is not None and _uses_sandbox(found, agent))
    if found is None or agent is None:
        return  # without a configuration, which plugins may load is unknown
    yield from _config(found, agent)
    yield from _trust(found)
    loadable = [candidate for candidate in found.candidates if candidate.record.status == "active"]
    probes = [Probe.of_plugin(candidate, found, config) for candidate in loadable]
    if not isinstance(agent, Check):
        probes.append(Probe.of_agent(config, *agent))
    outcomes = run_probes(probes, seconds)
    yield from _plugins(found, dict(zip(map(id, loadable), outcomes, strict=False)), target)
    if isinstance(agent, Check):
        return
    model, backend = agent
    outcome = outcomes[-1]
    yield _agent_check(outcome)
    yield _backend(outcome, backend)
    yield _model(outcome, model)


def _python() -> Check:
    version = ".".join(str(part) for part in sys.version_info[:3])
    return Check(
        "python",
        sys.version_info >= (3, 11),
        f"Python {version} ({sys.executable})",
        "" if sys.version_info >= (3, 11) else "use Python 3.11 or newer",
    )


def _versions() -> Iterator[Check]:
    """Compare the versions of deep-agent-core and of what it rests on with what requires them."""
    yield _version("deep-cli", "deep-agent-core")
    for name in ("entry-point-index", "tool-expressions", "pydantic-ai-slim"):
        yield _version("deep-agent-core", name)


def _version(of: str, name: str) -> Check:
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        requirements = [Requirement(text) for text in metadata.requires(of) or ()]
        version = metadata.version(name)
    except metadata.PackageNotFoundError as error:
        return Check(name, False, f"{error.name} is not installed", f"pip install {error.name}")
    except (KeyError, TypeError, ValueError) as error:  # no METADATA, none of these fields, not UTF-8
        why = f"the metadata of {of} or {name} cannot be read ({type(error).__name__}: {error})"
        return Check(name, False, why, f"pip install --force-reinstall {of} {name}")
    specifier = next((r.specifier for r in requirements if r.name == name), None)
    if specifier is None or specifier.contains(version, prereleases=True):
        return Check(name, True, f"{name} {version}" + (f" (accepted: {specifier})" if specifier else ""))
    return Check(name, False, f"{name} {version}, but {of} needs {specifier}", f"pip install '{name}{specifier}'")


def _environment(target: Target) -> Check:
    """Show where `deep plugins install` installs. An environment that it may not change is fine, too."""
    if target.obstacle:
        return Check("environment", True, f"deep plugins install cannot change {target}", target.obstacle)
    return Check("environment", True, f"plugins are installed into {target}")


def _folders() -> Iterator[Check]:
    """Check the user's folders by writing to them."""
    from platformdirs import user_cache_path, user_data_path

    for name, folder, without, variable in (
        ("cache", user_cache_path("deep"), "deep plugins list does not know which plugins failed", "XDG_CACHE_HOME"),
        (
            "data",
            user_data_path("deep"),
            "deep config trust and deep plugins restore cannot store anything",
            "XDG_DATA_HOME",
        ),
    ):
        problem = write_problem(folder)
        fix = f"make it writable, or: export {variable}=a folder of yours"
        if problem:
            yield Check(f"folder:{name}", True, f"{problem}: {without}", fix)
        else:
            yield Check(f"folder:{name}", True, f"{name}: {folder}")
    try:
        yield Check("folder:temporary", True, f"temporary files: {tempfile.gettempdir()}")
    except OSError:
        why = "no folder for temporary files is writable, so probes and installs fail"
        yield Check("folder:temporary", False, why, "export TMPDIR=a writable folder")


def write_problem(folder: Path) -> str:
    """Why a folder, or the parent it would be created in, is not writable; "" if it is.

    Tries it: permission bits do not show a read-only mount, and root ignores them.
    """
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    try:
        with tempfile.TemporaryFile(dir=folder):
            return ""
    except OSError as error:
        return f"{folder} is not writable ({error.strerror})"


def _unreadable(target: Target) -> Iterator[Check]:
    """Distributions whose entry points do not parse. One of them breaks every reader of entry points, pydantic too."""
    from importlib import metadata

    for dist_info in (path for folder in sys.path for path in sorted(Path(folder).glob("*.dist-info"))):
        try:
            _ = metadata.Distribution.at(dist_info).entry_points
        except Exception as error:  # noqa: BLE001 - any error while parsing is a finding
            yield _garbage(target, dist_info, error)


def _garbage(target: Target, dist_info: Path, error: Exception) -> Check:
    name = canonical(dist_info.name.removesuffix(".dist-info").partition("-")[0])
    # pip reads the file too, and stops, so remove it first. A reinstall overwrites the rest of the distribution.
    remove = f"rm -r {shlex.quote(str(dist_info))} && "
    return Check(
        f"distribution:{name}",
        False,
        f"{dist_info / 'entry_points.txt'} cannot be read ({type(error).__name__}: {error}); no agent can be made "
        "until it is removed",
        remove + typed(target, "install", [name]),
    )


def _ripgrep() -> Check:
    path = find_program("rg")
    if path:
        return Check("ripgrep", True, f"ripgrep: {path}")
    return Check(
        "ripgrep", True, "ripgrep is not installed; searching works without, more slowly", "install ripgrep (optional)"
    )


def _uses_sandbox(found: FoundPlugins, agent: object) -> bool:
    """Whether the configuration chooses the backend `sandbox`, by itself or as a part of `composite`."""
    backend = cast("tuple[object, object]", agent)[1] if isinstance(agent, tuple) else None
    options = found.config.plugin("backends").options
    routes = options.get("routes")
    parts = [
        options.get("composite_default"),
        *(cast("dict[str, object]", routes).values() if isinstance(routes, dict) else ()),
    ]
    return backend == "sandbox" or (backend == "composite" and "sandbox" in parts)


def _bubblewrap(*, needed: bool) -> Check:
    """Whether commands of the backend `sandbox` can be confined: bubblewrap is there, and may make namespaces."""
    path = find_program("bwrap")
    if path is None:
        return Check(
            "bubblewrap",
            not needed,
            f"bubblewrap is not installed; {NEEDS_IT if needed else 'the backend `sandbox` needs it'}",
            f"apt-get install bubblewrap (or dnf, pacman){'' if needed else '; optional, Linux only'}",
        )
    command = [path, "--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=30, check=False)
        problem = done.stderr.strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        problem = str(error)
    if not problem:
        return Check("bubblewrap", True, f"bubblewrap: {path}")
    return Check(
        "bubblewrap",
        not needed,
        f"{path} cannot make a sandbox ({problem[:200]}); {NEEDS_IT if needed else 'the backend `sandbox` fails'}",
        "allow user namespaces: sysctl kernel.unprivileged_userns_clone=1, or the container's seccomp rules",
    )


def _agent_section(found: FoundPlugins) -> tuple[str | None, str | None] | Check:
    """The configured model and backend, or the error in `[agent]`."""
    from deep_core.plugin_api import read_agent_config, restricted_layers

    try:
        agent = read_agent_config(found.config)
        for layer in restricted_layers(found.config):
            layer.validated()
    except ConfigError as error:
        return Check("config", False, str(error), "fix that key; `deep config schema` shows what is accepted")
    return agent.model.id, agent.runtime_policy.profile


def _config(found: FoundPlugins, agent: object) -> Iterator[Check]:
    if isinstance(agent, Check):
        yield agent
    else:
        files = [str(path) for path in found.config.files]
        yield Check("config", True, f"read {', '.join(files)}" if files else "no configuration file (none is needed)")
    for message in found.warnings:
        yield Check("config:leftover", True, message, "remove it from that file, or install its plugin")


def _trust(found: FoundPlugins) -> Iterator[Check]:
    from deep_core.plugin_api import ignored_keys

    for layer in found.config.layers:
        if layer.path is None:
            continue
        if layer.trusted:
            yield Check("config:trust", True, f"{layer.path} is trusted")
            continue
        ignored = [key.partition(": ")[2] for key in ignored_keys(found.config)]
        options = plugin_options(layer)
        effects = [f"these are ignored: {', '.join(ignored)}"] if ignored else []
        effects += [f"these may at most narrow: {', '.join(options)}"] if options else []
        yield Check(
            "config:trust",
            True,
            f"{layer.path} is not trusted, " + (f"so {'; '.join(effects)}" if effects else "and needs no trust"),
            f"read the file; if you agree: deep config trust {layer.path}" if effects else "",
        )


def _plugins(found: FoundPlugins, outcomes: Mapping[int, Outcome], target: Target) -> Iterator[Check]:
    """Check every plugin: probe those that would load (results by `id`), report the reason of the others."""
    names = {candidate.record.name for candidate in found.candidates}
    for candidate in found.candidates:
        outcome = outcomes.get(id(candidate))
        yield _left_out_check(candidate, target) if outcome is None else _plugin_check(candidate, outcome, names)


def _left_out_check(candidate: Candidate, target: Target) -> Check:
    record = candidate.record
    if record.error is not None:
        return _without_metadata(candidate, target)
    is_intended = record.status in ("disabled", "blocked")  # the configuration says so: nothing to fix
    fix = "" if is_intended else _way_out(record.reason) or f"leave it out: plugins.disable = [{record.name!r}]"
    return Check(
        f"plugin:{record.name}", is_intended, f"{record.label} is {record.status}: {record.reason}", fix, record.name
    )


def _without_metadata(candidate: Candidate, target: Target) -> Check:
    record = candidate.record
    again = typed(target, "install", [str(record.distribution)])
    fix = f"rm -r {shlex.quote(str(candidate.point.dist_info))} && {again}"
    reason = record.reason.partition("; pip install")[0]
    return Check(f"plugin:{record.name}", False, f"{record.label} is {record.status}: {reason}", fix, record.name)


def _way_out(reason: str) -> str:
    """The command that ends the kernel's reason: `…: pip install X`, `…; to enable it, …`."""
    reason = re.sub(r" \([^()]*\)$", "", reason)  # an incident's effect stands behind it
    command = re.search(r"pip (?:un)?install [^;\n]+$", reason)
    return command[0] if command else reason.rpartition("; ")[2] if "; " in reason else ""


def _plugin_check(candidate: Candidate, outcome: Outcome, names: Collection[str]) -> Check:
    record = candidate.record
    name = f"plugin:{record.name}"
    off = f"plugins.disable = [{record.name!r}]"
    ways = f"pip install -U {record.distribution}, or {off} in the configuration"
    if outcome.problem:
        fix = ways if outcome.ended else _way_out(outcome.problem) or ways
        return Check(name, False, f"{record.label} {outcome.problem}", fix, record.name)
    asleep = [(hook, of) for hook, of in outcome.data.get("asleep") or () if of not in names]
    for hook, of in asleep:
        if near := suggest(of, names):
            why = f"{record.label} implements {hook} of={of!r}, but no plugin is called {of!r}.{near}"
            return Check(name, False, why, f"correct of={of!r} in {candidate.point.module}", record.name)
    took = float(outcome.data.get("import_ms") or 0)
    if took > SLOW_MS:
        module = candidate.point.module
        return Check(
            name,
            False,
            f"{record.label} takes {took / 1000:.1f} s to import, and every start pays it",
            f"find the slow import: python -X importtime -c 'import {module}' (its author should import it inside "
            f"hooks); or {off}",
            record.name,
        )
    hooks = ", ".join(outcome.data.get("hooks") or ())
    absent = "".join(f"; {hook} has no effect without plugin {of}" for hook, of in asleep)
    return Check(name, True, f"{record.label} loads in {took:.0f} ms: {hooks}{absent}", "", record.name)


def _agent_check(outcome: Outcome) -> Check:
    part: dict[str, Any] | None = outcome.data.get("agent")
    if part is None:
        return Check("agent", False, f"an agent of all plugins {outcome.problem}", SEE_PLUGINS)
    if not part["ok"]:
        return Check("agent", False, part["message"], "fix what the message names, then: deep explain")
    return Check("agent", True, part["message"])


def _backend(outcome: Outcome, backend: str | None) -> Check:
    part: dict[str, Any] | None = outcome.data.get("backend")
    name = backend or BACKEND
    if part is None:
        return Check("backend", False, f"backend {name!r} was not checked: no agent was assembled", SEE_PLUGINS)
    fix = "" if part["ok"] else "pip install deep-backends, or [agent] runtime_policy.profile = an installed backend"
    return Check("backend", part["ok"], part["message"], fix)


def _model(outcome: Outcome, model: str | None) -> Check:
    present = [variable for variable in PROVIDER_KEYS.values() if os.environ.get(variable)]
    keys = f"keys set for: {', '.join(present)}" if present else "no provider's key is set"
    if model is None:
        return Check("model", False, f"no model is configured; {keys}", no_model().message.partition(": ")[2])
    part: dict[str, Any] | None = outcome.data.get("model")
    if part is None:
        return Check("model", False, f"model {model} was not checked: no agent was assembled", SEE_PLUGINS)
    if part["ok"]:
        return Check("model", True, f"{model}: package and key found (no request was sent)")
    return Check("model", False, f"{part['message']}; {keys}", _model_fix(part["message"]))


def _model_fix(message: str) -> str:
    """The command in the `explain_error` message for a model that cannot be created."""
    command = re.search(r"deep keys set [A-Z0-9_]+|pip install '[^']+'", message)
    return command[0] if command else "name another model: DEEP_MODEL=provider:name, or [agent] model"
