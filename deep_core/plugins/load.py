"""Import the plugins that may load and register their hooks, so that none takes the application down."""

from __future__ import annotations

import importlib
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, cast

from ..errors import MissingExtra, PluginError, describe_error, reraise_control, suggest
from ..tracing import Tracer
from .dispatch import MESSAGE_LIMIT
from .index import MARKER, Candidate, PluginRecord, Status, origin_problem
from .registry import Registry, static_attribute


@dataclass(frozen=True)
class Loaded:
    """A loaded plugin: its record and the object with its hooks."""

    record: PluginRecord
    obj: object


def load(
    candidates: Sequence[Candidate],
    given: Mapping[str, object],
    registry: Registry,
    on_error: Callable[[PluginRecord], None],
    tracer: Tracer,
) -> list[Loaded]:
    """Import, check and register the active candidates.

    Args:
        candidates: with their statuses; their records change.
        given: objects given by hand, by plugin name.
        registry: gets the specs of all, then the implementations of all.
        on_error: called with the record of each plugin that fails; may raise (strict, or a plugin that code named).
        tracer: traces every import.
    """
    # A distribution with a marker alone has no code: deep-folders reads what it brings.
    active = [c for c in candidates if c.record.status == "active" and c.value != MARKER]
    found = (_contained(c.record, lambda c=c: _import(c, given, tracer), on_error) for c in active)
    imported: list[Loaded] = [plugin for plugin in found if plugin is not None]
    # Specs first, so that implementations are checked against all hooks.
    with_specs = [p for p in imported if _contained(p.record, lambda p=p: _add_specs(p, registry), on_error)]
    return [p for p in with_specs if _contained(p.record, lambda p=p: _register(p, registry), on_error)]


def _contained(record: PluginRecord, step: Callable[[], Any], on_error: Callable[[PluginRecord], None]) -> Any:
    try:
        return step()
    except BaseException as error:
        reraise_control(error)
        error.add_note(f"plugin {record.label}")
        record.fail(*failure_of(record, error), error)
    on_error(record)
    return None


def failure_of(record: PluginRecord, error: BaseException, where: str = "") -> tuple[Status, str]:
    """Return the status and the reason of a plugin that raised `error`, in the hook `where` if known."""
    if isinstance(error, MissingExtra):
        return "needs-extra", error.advice(record.distribution)
    reason = explain_failure(record, error)
    return "failed", f"{where}: {reason}" if where else reason


def explain_failure(record: PluginRecord, error: BaseException) -> str:
    """Return one line for a list: the error, its place, and what to type."""
    dist = record.distribution
    way = f"pip install -U {dist}, or plugins.disable = [{record.name!r}]" if dist else f"fix {record.path or 'it'}"
    if isinstance(error, PluginError):
        told = "pip install" in str(error) or "plugins." in str(error)
        return str(error) if told else f"{error}; {way}"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "importlib" not in f.filename]
    where = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    if isinstance(error, SyntaxError) and error.filename:
        where = f" at {error.filename}:{error.lineno}"
    if isinstance(error, ModuleNotFoundError) and error.name:
        way = f"pip install {error.name.partition('.')[0]}, or {way}"
    text = " ".join(describe_error(error).split())
    if len(text) > MESSAGE_LIMIT:
        text = f"{text[:MESSAGE_LIMIT]}…"
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
    function = static_attribute(plugin.obj, "deep_hookspecs")
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
    plugin.record.hooks, plugin.record.asleep = registry.check(plugin.record.name, plugin.obj)
    registry.register(plugin.record.name, plugin.obj)
    return True
