"""What `deep doctor` looks at: one function a check. None of them imports a plugin; probes run in child processes."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deep_core import ConfigError
from deep_core.index import Candidate
from deep_core.kernel import Survey, survey

from .explained import KEYS, no_model
from .flags import BACKEND
from .probing import Outcome, Probe, workers
from .screen import redact

__all__ = ["Check", "examine"]

SLOW_MS = 1500
"""Milliseconds: a plugin whose own import takes longer is reported. Pydantic AI is loaded before: it does not count."""
SEE_PLUGINS = "mend or disable the plugins named above, then run deep doctor again"


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        name: what; `plugin:<name>` for a plugin.
        ok: whether it is as it should be.
        message: what was found.
        fix: what to type, "" where there is nothing to mend.
        plugin: the plugin concerned, None for none.
    """

    name: str
    ok: bool
    message: str
    fix: str = ""
    plugin: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The documented form (contract, section 10)."""
        return asdict(self)


def examine(config: Path | None, seconds: float) -> Iterator[Check]:
    """All checks, in order, each as soon as it is known; no text has a secret of the host's environment.

    Args:
        config: a configuration file, trusted as code is.
        seconds: how long one probe may take.
    """
    for check in _examine(config, seconds):
        yield Check(check.name, check.ok, redact(check.message), redact(check.fix), check.plugin)


def _examine(config: Path | None, seconds: float) -> Iterator[Check]:
    yield _python()
    yield from _versions()
    found: Survey | None = None
    try:
        found = survey(config=config, remembered=False)
    except ConfigError as error:
        yield Check("config", False, str(error), "mend that key; `deep config schema` has what is accepted")
    yield _ripgrep()
    if found is None:
        return  # without a configuration it is not known which plugins may load
    agent = _agent_section(found)
    yield from _config(found, agent)
    yield from _trust(found)
    yield from _plugins(found, config, seconds)
    if isinstance(agent, Check):
        return
    model, backend = agent
    outcome = Probe.of_agent(config, model, backend).run(seconds)
    yield _assembled(outcome)
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
    """deep-core as deep-cli wants it, Pydantic AI as deep-core wants it, told from metadata."""
    for of, name in (("deep-cli", "deep-core"), ("deep-core", "pydantic-ai-slim")):
        yield _version(of, name)


def _version(of: str, name: str) -> Check:
    from importlib import metadata

    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(text) for text in metadata.requires(of) or ()]
        version = metadata.version(name)
    except metadata.PackageNotFoundError as error:
        return Check(name, False, f"{error.name} is not installed", f"pip install {error.name}")
    accepted = next((r.specifier for r in wanted if r.name == name), None)
    if accepted is None or accepted.contains(version, prereleases=True):
        return Check(name, True, f"{name} {version}" + (f" (accepted: {accepted})" if accepted else ""))
    return Check(name, False, f"{name} {version}, but {of} needs {accepted}", f"pip install '{name}{accepted}'")


def _ripgrep() -> Check:
    path = shutil.which("rg")
    if path:
        return Check("ripgrep", True, f"ripgrep: {path}")
    return Check(
        "ripgrep", True, "ripgrep is not installed; searching works without, more slowly", "install ripgrep (optional)"
    )


def _agent_section(found: Survey) -> tuple[str | None, str | None] | Check:
    """The configured model and backend, or what is wrong with `[agent]`."""
    from deep_core.agent_config import parse_agent_config

    try:
        agent = parse_agent_config(*found.config.agent())
        for source, section in found.config.narrowing():
            parse_agent_config(section, dict.fromkeys(section, source))
    except ConfigError as error:
        return Check("config", False, str(error), "mend that key; `deep config schema` has what is accepted")
    return agent.model.id, agent.runtime_policy.profile


def _config(found: Survey, agent: object) -> Iterator[Check]:
    if isinstance(agent, Check):
        yield agent
    else:
        files = [str(path) for path in found.config.files]
        yield Check("config", True, f"read {', '.join(files)}" if files else "no configuration file (none is needed)")
    for message in found.warnings:
        yield Check("config:leftover", True, message, "take it out of that file, or install what it is for")


def _trust(found: Survey) -> Iterator[Check]:
    for layer in found.config.layers:
        if layer.path is None:
            continue
        if layer.trusted:
            yield Check("config:trust", True, f"{layer.path} is trusted")
        elif found.config.ignored:
            keys = ", ".join(key.partition(": ")[2] for key in found.config.ignored)
            yield Check(
                "config:trust",
                True,
                f"{layer.path} is not trusted, so these are ignored: {keys}",
                f"read the file; if it may say this: deep config trust {layer.path}",
            )
        else:
            yield Check("config:trust", True, f"{layer.path} is not trusted, and says nothing that needs trust")


def _plugins(found: Survey, config: Path | None, seconds: float) -> Iterator[Check]:
    """Every plugin: those that would load are probed, side by side; of the others the reason is told."""
    loadable = [c for c in found.candidates if c.record.status == "active"]
    with ThreadPoolExecutor(workers()) as pool:
        probes = [pool.submit(Probe.of_plugin(c, found, config).run, seconds) for c in loadable]
        outcomes = {id(c): probe for c, probe in zip(loadable, probes, strict=True)}
        for candidate in found.candidates:
            probe = outcomes.get(id(candidate))
            yield _left_out(candidate) if probe is None else _probed(candidate, probe.result())


def _left_out(candidate: Candidate) -> Check:
    record = candidate.record
    wanted = record.status in ("disabled", "blocked")  # somebody said so: nothing to mend
    fix = "" if wanted else _way_out(record.reason) or f"leave it out: plugins.disable = [{record.name!r}]"
    return Check(
        f"plugin:{record.name}", wanted, f"{record.label} is {record.status}: {record.reason}", fix, record.name
    )


def _way_out(reason: str) -> str:
    """What to type, which the kernel puts at the end of a reason: `…: pip install X`, `…; to enable it, …`."""
    command = re.search(r"pip (?:un)?install [^;\n]+$", reason)
    return command[0] if command else reason.rpartition("; ")[2] if "; " in reason else ""


def _probed(candidate: Candidate, outcome: Outcome) -> Check:
    record = candidate.record
    name = f"plugin:{record.name}"
    off = f"plugins.disable = [{record.name!r}]"
    ways = f"pip install -U {record.distribution}, or {off} in the configuration"
    if outcome.problem:
        fix = ways if outcome.ended else _way_out(outcome.problem) or ways
        return Check(name, False, f"{record.label} {outcome.problem}", fix, record.name)
    took = float(outcome.data.get("import_ms") or 0)
    if took > SLOW_MS:
        module = candidate.module
        return Check(
            name,
            False,
            f"{record.label} takes {took / 1000:.1f} s to import, and every start pays it",
            f"find out what does: python -X importtime -c 'import {module}' (its author should import that inside "
            f"hooks); or {off}",
            record.name,
        )
    hooks = ", ".join(outcome.data.get("hooks") or ())
    return Check(name, True, f"{record.label} loads in {took:.0f} ms: {hooks}", "", record.name)


def _assembled(outcome: Outcome) -> Check:
    part: dict[str, Any] | None = outcome.data.get("agent")
    if part is None:
        return Check("agent", False, f"an agent of all plugins {outcome.problem}", SEE_PLUGINS)
    if not part["ok"]:
        return Check("agent", False, part["message"], "mend what the message names, then: deep explain")
    return Check("agent", True, part["message"])


def _backend(outcome: Outcome, backend: str | None) -> Check:
    part: dict[str, Any] | None = outcome.data.get("backend")
    name = backend or BACKEND
    if part is None:
        return Check("backend", False, f"backend {name!r} was not tried: no agent was assembled", SEE_PLUGINS)
    fix = "" if part["ok"] else "pip install deep-backends, or [agent] runtime_policy.profile = a backend that there is"
    return Check("backend", part["ok"], part["message"], fix)


def _model(outcome: Outcome, model: str | None) -> Check:
    present = [variable for variable in KEYS.values() if os.environ.get(variable)]
    keys = f"keys are set for: {', '.join(present)}" if present else "no provider's key is set"
    if model is None:
        return Check("model", False, f"no model is configured; {keys}", no_model().message.partition(": ")[2])
    part: dict[str, Any] | None = outcome.data.get("model")
    if part is None:
        return Check("model", False, f"model {model} was not tried: no agent was assembled", SEE_PLUGINS)
    if part["ok"]:
        return Check("model", True, f"{model}: package and key are there (no request was sent)")
    return Check("model", False, f"{part['message']}; {keys}", _model_fix(part["message"]))


def _model_fix(message: str) -> str:
    """The command in what `explained` says of a model that cannot be made."""
    found = re.search(r"export [A-Z0-9_]+=…|pip install '[^']+'", message)
    return found[0] if found else "name another model: DEEP_MODEL=provider:name, or [agent] model"
