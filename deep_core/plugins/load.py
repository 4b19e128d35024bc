"""Import the plugins that may load and register their hooks, so that none takes the application down."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, cast

from entry_point_index import import_plugin

from ..errors import MissingExtra, PluginError, describe_error, reraise_control, suggest
from ..tracing import Tracer
from .dispatch import MESSAGE_LIMIT
from .index import MARKER, Candidate, PluginRecord, Status, origin_problem
from .registry import Registry, static_attribute


def load(
    candidates: Sequence[Candidate], registry: Registry, on_error: Callable[[PluginRecord], None], tracer: Tracer
) -> None:
    """Import, check and register the active candidates.

    Args:
        candidates: with their statuses; their records change.
        registry: gets the specs of all, then the implementations of all.
        on_error: called with the record of each plugin that fails; may raise (strict, or a plugin that code named).
        tracer: traces every import.
    """
    imported: list[tuple[PluginRecord, object]] = []
    for candidate in candidates:
        # A distribution with a marker alone has no code: deep-folders reads what it brings.
        if candidate.record.status == "active" and candidate.point.value != MARKER:
            with _contained(candidate.record, on_error):
                imported.append((candidate.record, _import(candidate, tracer)))
    # Specs first, so that implementations are checked against all hooks.
    for record, plugin in imported:
        with _contained(record, on_error):
            _add_specs(record, plugin, registry)
    for record, plugin in imported:
        if record.status == "active":
            with _contained(record, on_error):
                record.hooks, record.asleep = registry.check(record.name, plugin)
                registry.register(record.name, plugin)


@contextmanager
def _contained(record: PluginRecord, on_error: Callable[[PluginRecord], None]) -> Generator[None]:
    try:
        yield
    except BaseException as error:
        reraise_control(error)
        error.add_note(f"plugin {record.label}")
        record.fail(*failure_of(record, error), error)
        on_error(record)


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


def _import(candidate: Candidate, tracer: Tracer) -> object:
    record, obj = candidate.record, candidate.given
    if obj is None:
        problem = origin_problem(candidate)
        if problem:
            raise PluginError(problem, plugin=record.name)
        started = time.perf_counter()
        with tracer.step(record.name, "import", candidate.point.module):
            module = import_plugin(candidate.point.module)
        record.import_ms = (time.perf_counter() - started) * 1000
        obj = _attribute(candidate, module)
    return cast("Any", obj)() if isinstance(obj, type) else obj


def _attribute(candidate: Candidate, module: ModuleType) -> object:
    obj: object = module
    for part in candidate.point.attributes:
        if not hasattr(obj, part):
            known = [n for n in dir(obj) if not n.startswith("_")]
            raise PluginError(
                f"entry point {candidate.point.value!r} of {candidate.record.distribution}: {candidate.point.module} "
                f"has no {part!r}." + suggest(part, known),
                plugin=candidate.record.name,
            )
        obj = getattr(obj, part)
    return obj


def _add_specs(record: PluginRecord, plugin: Any, registry: Registry) -> None:
    function = static_attribute(plugin, "deep_hookspecs")
    if getattr(function, "deep_impl", None) is None:
        return
    for module in plugin.deep_hookspecs():
        if not isinstance(module, ModuleType):
            raise PluginError(
                f"plugin {record.name}, hook deep_hookspecs: expected modules, got {type(module).__name__}",
                plugin=record.name,
            )
        registry.add_specs(record.name, module)
