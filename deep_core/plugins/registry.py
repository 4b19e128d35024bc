"""Check plugins' hook implementations, register them with pluggy and order them.

pluggy knows the specs and reads the arguments. `dispatch.py` calls the implementations, one at a time, inside
containment.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from types import ModuleType
from typing import Any, cast

import pluggy

from ..errors import PluginError, suggest
from . import hookspecs
from .markers import HookOrder, HookPolicy

PROJECT = "deep"
OWNED_POLICIES = ("collect", "one", "first", "notify")
"""What `context.collect` calls, and what a plugin calls itself, by `kernel.caller`; the kernel calls the others."""
ASYNC_POLICIES = ("notify", "deny")
"""Hooks whose implementations may be async: the kernel calls them during a run."""


class _Manager(pluggy.PluginManager):
    """A pluggy manager that finds implementations without running lazy modules or properties."""

    def parse_hookimpl_opts(self, plugin: object, name: str) -> Any:
        function = static_attribute(plugin, name)
        return getattr(function, "deep_impl", None) if inspect.isroutine(function) else None

    def parse_hookspec_opts(self, module_or_class: object, name: str) -> Any:
        function = static_attribute(module_or_class, name)
        spec = getattr(function, "deep_spec", None) if inspect.isroutine(function) else None
        # pluggy's warning for a retired hook does not name the plugin; `register` emits one that does.
        return spec and {**spec, "warn_on_impl": None, "warn_on_impl_args": None}


def static_attribute(owner: object, name: str) -> Any:
    """Read an attribute of a module, class or instance without running a property or a lazy module's code.

    Since Python 3.12 `inspect.getattr_static` keeps every object that it read alive in a cache.
    """
    value: Any = None
    if not isinstance(owner, ModuleType):
        kinds: tuple[type, ...] = owner.__mro__ if isinstance(owner, type) else type(owner).__mro__
        value = next((vars(kind)[name] for kind in kinds if name in vars(kind)), None)
    if value is None and not isinstance(owner, type):
        value = cast("dict[str, Any]", getattr(owner, "__dict__", {})).get(name)
    return cast("Any", value).__func__ if isinstance(value, (staticmethod, classmethod)) else value


class Registry:
    """The hooks of one kernel and their implementations."""

    def __init__(self) -> None:
        self._manager = _Manager(PROJECT)
        self._specs: dict[str, Any] = {}
        self._owners: dict[str, str | None] = {}
        self._order: dict[str, tuple[pluggy.HookImpl, ...]] = {}
        self._add(hookspecs, None)

    def policy(self, hook: str) -> HookPolicy:
        """Return a hook's policy. Raises KeyError for an unknown hook."""
        return self._specs[hook].deep_policy

    @property
    def hooks(self) -> Mapping[str, str | None]:
        """Every hook and the plugin that owns it (None: the kernel)."""
        return self._owners

    def add_specs(self, plugin: str, module: ModuleType) -> None:
        """Add a plugin's own hooks.

        Raises:
            PluginError: the hook is declared already, or `context.collect` cannot call it.
        """
        for name, function in specs_of(module).items():
            policy, problem = function.deep_policy.policy, ""
            if name in self._specs:
                problem = f"which {self._owners[name] or 'deep_core'} owns; rename it"
            elif policy not in OWNED_POLICIES:
                problem = f"with policy={policy!r}; the policy of a plugin's own hook is {', '.join(OWNED_POLICIES)}"
            elif policy in ("collect", "one") and (more := {*inspect.signature(function).parameters} - {"context"}):
                problem = f"with the argument {min(more)!r}; a plugin's own hook takes only context"
            if problem:
                raise PluginError(f"plugin {plugin} declares hook {name}, {problem}", plugin=plugin)
        self._add(module, plugin)

    def _add(self, module: ModuleType, owner: str | None) -> None:
        self._manager.add_hookspecs(module)
        self._specs |= (specs := specs_of(module))
        self._owners |= dict.fromkeys(specs, owner)

    def check(self, plugin: str, obj: object) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
        """Check the hooks that `obj` implements. This registers nothing.

        Returns:
            The hooks, and those that stay asleep, each with the absent plugin that it is `of`.

        Raises:
            PluginError: no hook, a misspelt one, a wrong owner or argument, an async contribution hook, a wrapper.
        """
        found: list[str] = []
        asleep: list[tuple[str, str]] = []
        for name in dir(obj):
            function = static_attribute(obj, name)
            options = getattr(function, "deep_impl", None) if inspect.isroutine(function) else None
            if options is None:
                continue
            hook = options.get("specname") or name
            order: HookOrder = getattr(function, "deep_order", HookOrder())
            if hook not in self._specs and order.of is not None and order.of not in self._owners.values():
                asleep.append((hook, order.of))
                continue
            where = f"plugin {plugin}, hook {hook} ({_place(function)})"
            if options.get("wrapper") or options.get("hookwrapper"):
                raise PluginError(f"{where}: wrapper=True is not supported; hooks are called one by one", plugin=plugin)
            self._check_owner(where, plugin, hook, order.of)
            if inspect.iscoroutinefunction(function) and self.policy(hook).policy not in ASYNC_POLICIES:
                raise PluginError(f"{where}: must be a plain function, not async; do I/O at run time", plugin=plugin)
            self._check_arguments(where, plugin, hook, function)
            found.append(hook)
        if not found and not asleep:
            raise PluginError("it implements no hook: mark its functions with @deep_core.hookimpl", plugin=plugin)
        return tuple(sorted(found)), tuple(sorted(asleep))

    def _check_owner(self, where: str, plugin: str, hook: str, of: str | None) -> None:
        if hook not in self._specs:
            owner = f" of plugin {of}" if of else ""
            hint = suggest(hook, self._specs) or f" Hooks: {', '.join(sorted(self._specs))}."
            raise PluginError(f"{where}: there is no such hook{owner}.{hint}", plugin=plugin)
        if of not in (None, owner := self._owners[hook]):
            way = f'write of="{owner}"' if owner else "leave out of="
            raise PluginError(f"{where}: of={of!r} does not own this hook; {way}", plugin=plugin)

    def _check_arguments(self, where: str, plugin: str, hook: str, function: Callable[..., Any]) -> None:
        known: tuple[str, ...] = getattr(self._manager.hook, hook).spec.argnames
        # pluggy reads them, so that both agree on bound methods and defaults.
        given = pluggy.HookImpl(None, plugin, function, cast("Any", function).deep_impl).argnames
        for argument in given:
            if argument not in known:
                hint = suggest(argument, known) or f" It takes ({', '.join(known)})."
                raise PluginError(f"{where}: unknown argument {argument!r}.{hint}", plugin=plugin)

    def register(self, plugin: str, obj: object) -> None:
        """Register a checked plugin under its name."""
        self._manager.register(obj, plugin)
        self._order.clear()
        for hook, spec in self._specs.items():
            for impl in getattr(self._manager.hook, hook).get_hookimpls():
                if impl.plugin_name == plugin:
                    _warn_if_retired(spec.deep_spec, impl)

    def clear(self) -> None:
        """Take everything out."""
        for name, _ in self._manager.list_name_plugin():
            self._manager.unregister(name=name)
        self._order.clear()

    def implementations(self, hook: str, order: Callable[[str], int]) -> tuple[pluggy.HookImpl, ...]:
        """Return the implementations of a hook, first to last.

        The application's `order` decides (lower first), then authors' before and after, then tryfirst and trylast, then
        the plugin's name.

        Raises:
            PluginError: `before` and `after` form a cycle, which the message prints.
        """
        if hook not in self._order:
            caller = getattr(self._manager.hook, hook)
            self._order[hook] = tuple(_sorted(hook, sorted(caller.get_hookimpls(), key=_by_name), order))
        return self._order[hook]


def specs_of(module: ModuleType) -> dict[str, Any]:
    """The hooks that a module declares, in its order: name -> function."""
    return {n: f for n, f in vars(module).items() if inspect.isfunction(f) and hasattr(f, "deep_policy")}


def _warn_if_retired(spec: Mapping[str, Any], impl: pluggy.HookImpl) -> None:
    arguments: Mapping[str, Warning] = spec["warn_on_impl_args"] or {}
    found: list[Warning | None] = [spec["warn_on_impl"], *(arguments.get(name) for name in impl.argnames)]
    for message in filter(None, found):
        text = f"{message} (plugin {impl.plugin_name}, {_place(impl.function)})"
        warnings.warn(text, type(message), stacklevel=3)


def _place(function: Callable[..., Any]) -> str:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(function)


def _by_name(impl: pluggy.HookImpl) -> tuple[str, str]:
    return impl.plugin_name, getattr(impl.function, "__name__", "")


def _sorted(hook: str, impls: Sequence[pluggy.HookImpl], order: Callable[[str], int]) -> list[pluggy.HookImpl]:
    ranks = [
        (order(impl.plugin_name), 0 if impl.tryfirst else 2 if impl.trylast else 1, impl.plugin_name, node)
        for node, impl in enumerate(impls)
    ]
    sorter: TopologicalSorter[int] = TopologicalSorter(dict.fromkeys(range(len(impls)), ()))
    for one, impl in enumerate(impls):
        wish: HookOrder = getattr(impl.function, "deep_order", HookOrder())
        for other, candidate in enumerate(impls):
            if ranks[one][0] != ranks[other][0]:
                continue  # the application's order outranks the authors' wishes
            if candidate.plugin_name in wish.before:
                sorter.add(other, one)
            if candidate.plugin_name in wish.after:
                sorter.add(one, other)
    try:
        sorter.prepare()
    except CycleError as error:
        cycle: list[int] = error.args[1]
        names = " -> ".join(impls[node].plugin_name for node in cycle)
        raise PluginError(f"hook {hook}: the plugins' before/after form a cycle: {names}") from None
    ready: list[int] = []
    out: list[pluggy.HookImpl] = []
    while sorter.is_active():
        first, *ready = sorted([*ready, *sorter.get_ready()], key=ranks.__getitem__)
        out.append(impls[first])
        sorter.done(first)
    return out
