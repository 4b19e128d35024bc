"""Gate and import: which of the indexed plugins may load, and loading them so that none takes the application down."""

from __future__ import annotations

import importlib
import re
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from .config import Config
from .contributions import NAME
from .errors import ConfigError, MissingExtra, PluginError, suggest
from .index import Candidate, PluginRecord, origin_problem
from .metadata import accepts, canonical
from .registry import Registry, static
from .tracing import Tracer

__all__ = ["Lists", "Loaded", "by_hand", "explain_failure", "gate", "load", "named"]


@dataclass(frozen=True)
class Lists:
    """The effective lists: (entry, source) pairs; entries are plugin or distribution names."""

    allow: tuple[tuple[str, str], ...] | None
    disable: tuple[tuple[str, str], ...]
    require: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls, config: Config, *, allow: Iterable[str] | None, disable: Iterable[str], require: Iterable[str]
    ) -> Lists:
        """What code says, joined with what the configuration says. For `allow` code wins."""
        listed = config.plugin_list("allow") if allow is None else tuple((name, "code") for name in allow)
        return cls(
            allow=listed,
            disable=tuple((n, "code") for n in disable) + (config.plugin_list("disable") or ()),
            require=tuple((n, "code") for n in require) + (config.plugin_list("require") or ()),
        )


@dataclass(frozen=True)
class Loaded:
    """A plugin that did load: its record and the object that carries its hooks."""

    record: PluginRecord
    obj: object


def by_hand(given: object, names: Iterable[str] = ()) -> Candidate:
    """A candidate for a module or object that the application gave.

    Its name is the module's last part without `deep_`, or the class's name in snake case.
    """
    if isinstance(given, ModuleType):
        name, path = given.__name__.rpartition(".")[2].removeprefix("deep_"), getattr(given, "__file__", None) or ""
    else:
        kind = given if isinstance(given, type) else type(given)
        name, path = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind.__name__).lower(), kind.__module__
    if not NAME.fullmatch(name):
        raise PluginError(f"a plugin given by hand cannot be called {name!r}; {NAME.pattern} is what a name looks like")
    from pathlib import Path

    record = PluginRecord(name=name, distribution=None, version="", path=path)
    return Candidate(record, "", Path(), "", (), (), (), listed=False)


def gate(
    candidates: Sequence[Candidate], lists: Lists, config: Config, version: str, reserved: Iterable[str]
) -> list[str]:
    """Give every candidate its status before import. Returns warnings.

    Args:
        candidates: what the index found; their records are changed.
        lists: allow, disable, require.
        config: for `[plugins.x] enabled`.
        version: deep-core's own.
        reserved: names that a plugin cannot have (the parameters of `create_deep_agent`).

    Raises:
        ConfigError: an unknown name in `allow` or `require`.
    """
    warnings = _check_lists(candidates, lists, config)
    reserved = set(reserved)
    for candidate in candidates:
        _gate_one(candidate, lists, config, version, reserved)
    _gate_doubles(candidates)
    _gate_requirements(candidates)
    return warnings


def named(record: PluginRecord, entries: Iterable[tuple[str, str]]) -> str | None:
    """The source of the first entry that names the plugin or its distribution (in any spelling), or None."""
    for entry, source in entries:
        if entry == record.name or (record.distribution and _same_distribution(entry, record.distribution)):
            return source
    return None


def _same_distribution(a: str, b: str) -> bool:
    return canonical(a) == canonical(b)


def _check_lists(candidates: Sequence[Candidate], lists: Lists, config: Config) -> list[str]:
    known = {c.record.name for c in candidates} | {c.record.distribution or "" for c in candidates}
    known |= {c.record.distribution.replace("_", "-").lower() for c in candidates if c.record.distribution}
    for what, entries in (("allow", lists.allow or ()), ("require", lists.require)):
        for entry, source in entries:
            if not any(named(c.record, [(entry, source)]) for c in candidates):
                raise ConfigError(
                    f"{source}: plugins.{what} names {entry!r}, which is not installed.{suggest(entry, known)}"
                )
    warnings = [
        f"{source}: plugins.disable names {entry!r}, which is not installed.{suggest(entry, known)}"
        for entry, source in lists.disable
        if not any(named(c.record, [(entry, source)]) for c in candidates)
    ]
    names = {c.record.name for c in candidates}
    warnings += [
        f"{source}: [plugins.{name}] is for a plugin that is not installed.{suggest(name, names)}"
        for name, source in config.plugin_names().items()
        if name not in names
    ]
    return warnings


def _gate_one(candidate: Candidate, lists: Lists, config: Config, version: str, reserved: set[str]) -> None:
    record = candidate.record
    if record.status != "active":
        return  # its metadata could not be read
    if not NAME.fullmatch(record.name) or record.name in reserved:
        why = "is a parameter of create_deep_agent" if record.name in reserved else f"does not match {NAME.pattern}"
        record.fail("failed", f"its name {why}; its author must rename the entry point")
        return
    if source := named(record, lists.disable):
        record.fail("disabled", f"disabled in {source}; to enable it, take it out of plugins.disable there")
        return
    settings = config.plugin(record.name)
    if not settings.enabled:
        where = settings.sources["enabled"]
        record.fail("disabled", f"disabled in {where}: [plugins.{record.name}] enabled = false")
        return
    if lists.allow is not None and record.distribution is not None and not named(record, lists.allow):
        sources = {source for _, source in lists.allow} or {"code"}
        record.fail(
            "blocked", f"not on the allow list of {', '.join(sorted(sources))}; add {record.name!r} to plugins.allow"
        )
        return
    if candidate.core_range and not accepts(candidate.core_range, version):
        record.fail(
            "incompatible",
            f"needs deep-core {candidate.core_range}, this is {version}: "
            f"pip install 'deep-core{candidate.core_range}', or another version of {record.distribution}",
        )


def _gate_doubles(candidates: Sequence[Candidate]) -> None:
    by_name: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        if candidate.record.status == "active":
            by_name.setdefault(candidate.record.name, []).append(candidate)
    for name, doubles in by_name.items():
        if len(doubles) < 2:
            continue
        who = "\n".join(f"  {c.record.label}" for c in doubles)
        ways = [c.record.distribution for c in doubles if c.record.distribution]
        way = (
            f"plugins.disable = [{ways[0]!r}], or pip uninstall {ways[0]}" if ways else "give one of them, or rename it"
        )
        for candidate in doubles:
            candidate.record.fail(
                "failed",
                f"{len(doubles)} distributions have a plugin {name!r}:\n{who}\nchoose one: {way}",
            )


def _gate_requirements(candidates: Sequence[Candidate]) -> None:
    changed = True
    while changed:  # a plugin left out here may be another one's requirement
        changed = False
        for candidate in candidates:
            record = candidate.record
            problem = _unmet(candidate, candidates) if record.status == "active" else None
            if problem:
                record.fail("needs-plugin", problem)
                changed = True


def _unmet(candidate: Candidate, candidates: Sequence[Candidate]) -> str | None:
    for name in candidate.missing:
        if name.startswith("deep-"):
            return f"requires {name}, which is not installed: pip install {name}"
    for name in candidate.requires:
        providers = [
            c.record for c in candidates if c.record.distribution and _same_distribution(name, c.record.distribution)
        ]
        if providers and not any(record.status in ("active", "failed", "needs-extra") for record in providers):
            first = providers[0]
            return f"requires {name}, which is {first.status}: {first.reason}"
    return None


def load(
    candidates: Sequence[Candidate],
    given: Mapping[str, object],
    registry: Registry,
    on_error: Callable[[PluginRecord], None],
    tracer: Tracer,
) -> list[Loaded]:
    """Import, check and register the active candidates.

    Args:
        candidates: gated; their records are changed.
        given: objects given by hand, by plugin name.
        registry: gets the specs of all, then the implementations of all.
        on_error: called with the record of each plugin that fails; may raise (strict, or a plugin that was named).
        tracer: told of every import.
    """
    imported: list[Loaded] = []
    for candidate in candidates:
        if candidate.record.status != "active":
            continue
        loaded = _contained(candidate.record, lambda c=candidate: _import(c, given, tracer), on_error)
        if loaded is not None:
            imported.append(loaded)
    # Specs first, so that an implementation is checked against every hook there is.
    with_specs = [p for p in imported if _contained(p.record, lambda p=p: _add_specs(p, registry), on_error)]
    out: list[Loaded] = []
    for plugin in with_specs:
        if _contained(plugin.record, lambda p=plugin: _register(p, registry), on_error):
            out.append(plugin)
    return out


def _contained(record: PluginRecord, step: Callable[[], Any], on_error: Callable[[PluginRecord], None]) -> Any:
    try:
        return step()
    except MissingExtra as error:
        record.fail("needs-extra", error.advice(record.distribution), error)
    except (Exception, SystemExit) as error:
        error.add_note(f"plugin {record.label}")
        record.fail("failed", explain_failure(record, error), error)
    on_error(record)
    return None


def explain_failure(record: PluginRecord, error: BaseException) -> str:
    """One line for a list: what was raised, where, and what to type."""
    dist = record.distribution
    way = f"pip install -U {dist}, or plugins.disable = [{record.name!r}]" if dist else f"mend {record.path or 'it'}"
    if isinstance(error, PluginError):
        told = "pip install" in str(error) or "plugins." in str(error)
        return str(error) if told else f"{error}; {way}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" at {error.filename}:{error.lineno}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        way = f"pip install {error.name.partition('.')[0]}, or {way}"
    text = f"{type(error).__name__}: {error}".rstrip(": ")
    return f"{text}{where}; {way}"


def _import(candidate: Candidate, given: Mapping[str, object], tracer: Tracer) -> Loaded:
    record = candidate.record
    if record.name in given and record.distribution is None:
        obj = given[record.name]
    else:
        problem = origin_problem(candidate)
        if problem:
            raise PluginError(problem, plugin=record.name)
        started = time.perf_counter()
        with tracer.step(record.name, "import", candidate.module):
            module = importlib.import_module(candidate.module)
        record.import_ms = (time.perf_counter() - started) * 1000
        obj = _attribute(candidate, module)
    return Loaded(record, cast("Any", obj)() if isinstance(obj, type) else obj)


def _attribute(candidate: Candidate, module: ModuleType) -> object:
    path = candidate.value.partition(":")[2].partition("[")[0].strip()
    obj: object = module
    for part in filter(None, path.split(".")):
        if not hasattr(obj, part):
            known = [n for n in dir(obj) if not n.startswith("_")]
            raise PluginError(
                f"entry point {candidate.value!r} of {candidate.record.distribution}: {candidate.module} "
                f"has no {part!r}." + suggest(part, known),
                plugin=candidate.record.name,
            )
        obj = getattr(obj, part)
    return obj


def _add_specs(plugin: Loaded, registry: Registry) -> bool:
    function = static(plugin.obj, "deep_hookspecs")
    if function is not None and getattr(function, "deep_impl", None) is not None:
        modules: list[object] = list(cast("Any", plugin.obj).deep_hookspecs())
        for module in modules:
            if not isinstance(module, ModuleType):
                raise PluginError(
                    f"plugin {plugin.record.name}, hook deep_hookspecs: expected modules, got {type(module).__name__}",
                    plugin=plugin.record.name,
                )
            registry.add_specs(plugin.record.name, module)
    return True


def _register(plugin: Loaded, registry: Registry) -> bool:
    plugin.record.hooks = registry.check(plugin.record.name, plugin.obj)
    if not plugin.record.hooks:
        raise PluginError(
            f"{plugin.record.label} implements no hook: mark its functions with @deep_core.hookimpl",
            plugin=plugin.record.name,
        )
    registry.register(plugin.record.name, plugin.obj)
    return True
