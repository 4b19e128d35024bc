"""List what a plugin stores outside of sessions: in its modules, classes, contributions and their closures."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any, cast

from .subject import Subject

__all__ = ["holdings"]

DEPTH = 14
MAX_VALUES = 50_000
"""Maximum values to inspect: a plugin may have large constant tables."""
INSPECTED = ("deep_core.contributions", "pydantic_ai.toolsets", "pydantic_ai.tools", "collections")
"""Modules of foreign classes whose instances a plugin contributes or stores its state in."""
CACHE_TYPE = type(functools.lru_cache(len))
"""The types that `functools.cache` and `lru_cache` create."""
LINK = "_lru_list_elem"
SCALARS = (str, bytes, int, float, bool, complex, type(None))


def holdings(subject: Subject, contributions: Mapping[str, object]) -> dict[str, str]:
    """List every value that the plugin stores: location -> value, as text.

    Args:
        subject: the plugin; its modules are searched.
        contributions: the results of its hooks, by a name for reports.
    """
    roots: dict[str, object] = {
        name: module
        for name, module in sorted(sys.modules.items())
        if subject.wrote(getattr(module, "__file__", None) or "")
    }
    if not isinstance(subject.obj, ModuleType):
        roots[subject.name] = subject.obj
    values: dict[str, str] = {}
    visited: set[int] = set()
    waiting = deque((name, value, 0) for name, value in {**roots, **contributions}.items())
    while waiting and len(values) < MAX_VALUES:
        path, value, depth = waiting.popleft()
        if isinstance(value, SCALARS):
            values[path] = repr(value)
            continue
        if id(value) in visited:
            continue
        visited.add(id(value))
        values[path] = _shape(value)
        if depth < DEPTH:
            waiting.extend((f"{path}{where}", part, depth + 1) for where, part in _parts(value, subject))
    return values


def _shape(value: object) -> str:
    if isinstance(value, Mapping | list | tuple | set | frozenset | deque):
        return f"{type(cast('Any', value)).__name__} of {len(cast('Any', value))}"
    return type(value).__name__


def _parts(value: Any, subject: Subject) -> Iterator[tuple[str, object]]:
    if isinstance(value, ModuleType):
        yield from _attribute_parts(vars(value), subject)
    elif isinstance(value, Mapping):
        for index, (key, item) in enumerate(list(cast("Mapping[Any, Any]", value).items())):
            yield (f"[{key!r}]" if isinstance(key, SCALARS) else f"[#{index}]"), item
            if not isinstance(key, SCALARS):
                yield f".key[#{index}]", key
            elif isinstance(key, str):
                yield f".key[{key!r}]", key
    elif isinstance(value, list | tuple | set | frozenset | deque):
        yield from ((f"[{index}]", item) for index, item in enumerate(list(cast("Any", value))))
    elif isinstance(value, functools.partial):
        yield from ((".func", value.func), (".args", value.args), (".keywords", value.keywords))
    elif isinstance(value, CACHE_TYPE):
        yield from _cache_parts(value)
    elif isinstance(value, ContextVar):
        with contextlib.suppress(LookupError):  # it has no default, and a run's value is not visible here
            yield ".get()", cast("ContextVar[object]", value).get()
    elif isinstance(value, MethodType):
        yield from (("", value.__self__), (".__func__", value.__func__))
    elif isinstance(value, FunctionType):
        yield from _function_parts(value, subject)
    elif isinstance(value, type):
        if subject.wrote(getattr(sys.modules.get(value.__module__), "__file__", None) or ""):
            yield from _attribute_parts(vars(value), subject)
    elif not isinstance(value, BuiltinFunctionType | CodeType) and _is_inspected(value, subject):
        yield from _instance_parts(value)


def _attribute_parts(attributes: Mapping[str, Any], subject: Subject) -> Iterator[tuple[str, object]]:
    for name, value in list(attributes.items()):
        if name.startswith("__") or isinstance(value, ModuleType):
            continue
        function: Any = getattr(value, "__func__", getattr(value, "__wrapped__", value))
        foreign = isinstance(function, FunctionType) and not subject.wrote(function.__code__.co_filename)
        if not foreign:
            yield f".{name}", value


def _function_parts(function: FunctionType, subject: Subject) -> Iterator[tuple[str, object]]:
    wrapped: Any = getattr(function, "__wrapped__", None)
    if wrapped is not None:
        yield "", wrapped
    if not subject.wrote(function.__code__.co_filename):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f".{name}", cell.cell_contents
        except ValueError:  # a name assigned later
            continue
    yield from ((f".__defaults__[{index}]", item) for index, item in enumerate(function.__defaults__ or ()))
    yield from ((f".{n}", v) for n, v in vars(function).items() if n not in ("deep_impl", "deep_order", "__wrapped__"))


def _cache_parts(function: Any) -> Iterator[tuple[str, object]]:
    """The keys and results of a cache, but not their number: a cache may fill."""
    yield "", function.__wrapped__
    bounded = function.cache_parameters()["maxsize"] is not None
    # Only the collector knows its content. A bounded one has keys, results, and links between them.
    for referent in gc.get_referents(function):
        if referent is function.__wrapped__ or referent is function.__dict__ or isinstance(referent, type):
            continue
        parts: list[object] = [referent]
        if isinstance(referent, dict):
            table = cast("dict[object, object]", referent)
            if not bounded:
                parts = [*table.keys(), *table.values()]
            elif any(type(value).__name__ == LINK for value in table.values()):
                parts = []
        for part in parts:
            yield f".cache[{part!r}]" if isinstance(part, SCALARS) else f".cache[#{id(part)}]", part


def _is_inspected(value: object, subject: Subject) -> bool:
    module = type(value).__module__
    own = subject.wrote(getattr(sys.modules.get(module), "__file__", None) or "")
    return own or any(module == name or module.startswith(f"{name}.") for name in INSPECTED)


def _instance_parts(value: Any) -> Iterator[tuple[str, object]]:
    yield from ((f".{name}", item) for name, item in list(getattr(value, "__dict__", {}).items()))
    for kind in type(value).__mro__:
        slots: Any = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__") and hasattr(value, name):
                yield f".{name}", getattr(value, name)
