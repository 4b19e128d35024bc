"""Wrap a plugin: the same hooks under the plugin's name, with each call recorded.

A kernel names a plugin object after its module, and an installed one after its entry point. A test without
discovery passes plugins as objects, so the name is set here.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, cast

from deep_core.plugin_api import static_attribute

from .subject import Subject

__all__ = ["HookCall", "shell_of"]


@dataclass(frozen=True)
class HookCall:
    """One call of one plugin's hook.

    Attributes:
        plugin: the plugin's name.
        hook: the hook's name.
        arguments: its arguments, in the order of its signature.
        result: its result (an iterator as a list, an async hook awaited); None if it raised.
        error: the exception.
    """

    plugin: str
    hook: str
    arguments: tuple[Any, ...]
    result: Any = field(default=None, repr=False)
    error: BaseException | None = None


def shell_of(subject: Subject, calls: list[HookCall]) -> ModuleType:
    """Create a module with the plugin's name and hooks; record calls in `calls`."""
    shell = ModuleType(subject.name)
    if isinstance(subject.obj, ModuleType):
        vars(shell).update({k: v for k, v in vars(subject.obj).items() if k != "__name__"})
    for name in dir(subject.obj):
        function = static_attribute(subject.obj, name)
        if inspect.isroutine(function) and getattr(function, "deep_impl", None) is not None:
            options = cast("Mapping[str, Any]", cast("Any", function).deep_impl)
            hook = options.get("specname") or name
            setattr(shell, name, _record_calls(subject.name, hook, getattr(subject.obj, name), calls))
    return shell


def _record_calls(plugin: str, hook: str, function: Callable[..., Any], calls: list[HookCall]) -> Callable[..., Any]:
    @functools.wraps(function)
    def record(*arguments: Any) -> Any:
        try:
            result = function(*arguments)
            if isinstance(result, Iterator):
                result = list(cast("Iterator[Any]", result))
        except BaseException as error:
            calls.append(HookCall(plugin, hook, arguments, error=error))
            raise
        calls.append(HookCall(plugin, hook, arguments, result))
        return result

    @functools.wraps(function)
    async def record_async(*arguments: Any) -> Any:
        try:
            result = await function(*arguments)
        except BaseException as error:
            calls.append(HookCall(plugin, hook, arguments, error=error))
            raise
        calls.append(HookCall(plugin, hook, arguments, result))
        return result

    return record_async if inspect.iscoroutinefunction(function) else record
