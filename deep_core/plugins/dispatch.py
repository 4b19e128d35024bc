"""Call a hook's implementations one by one, each inside containment, and check the results."""

from __future__ import annotations

import importlib
import inspect
import logging
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..errors import PluginError, describe_error, reraise_control
from ..names import visible
from ..tables import is_iterable, is_table
from ..tracing import Tracer
from .contributions import Allow, Ask, Contribution, Deny
from .markers import HookPolicy
from .registry import Registry

if TYPE_CHECKING:
    from tool_expressions import Reason

logger = logging.getLogger("deep_core")


MESSAGE_LIMIT = 500
"""Most characters of an error's message that an incident keeps: it may quote what a session's user wrote."""
FRAMES = -50
"""Keep the last frames: an exception object that is raised again and again collects every frame it passes."""


@dataclass(frozen=True)
class Incident:
    """A plugin's failure at run time, and its effect.

    Text only: the exception would keep its frames alive, and with them the session.

    Attributes:
        plugin: the plugin that failed.
        where: the hook, tool, section or processor.
        error: type and message, `ValueError: no such city`.
        effect: what the kernel did.
        traceback: as Python prints it.
    """

    plugin: str
    where: str
    error: str
    effect: str
    traceback: str = field(default="", repr=False)

    def __str__(self) -> str:
        return visible(f"plugin {self.plugin}, {self.where}: {self.error} ({self.effect})")


@dataclass(eq=False, repr=False)
class Incidents:
    """The last hundred incidents of a kernel; `strict` raises instead."""

    strict: bool = False
    latest: deque[Incident] = field(default_factory=lambda: deque[Incident](maxlen=100))

    def record(self, plugin: str, where: str, error: BaseException, effect: str) -> None:
        """Log an incident and keep it; with `strict`, raise the error."""
        if self.strict:
            raise error
        self.note(plugin, where, error, effect)

    def note(self, plugin: str, where: str, error: BaseException, effect: str) -> None:
        """Log an incident and keep it."""
        incident = self.keep(plugin, where, error, effect)
        # One line for the terminal; the traceback only at level DEBUG.
        logger.warning("%s", incident, exc_info=error if logger.isEnabledFor(logging.DEBUG) else None)

    def keep(self, plugin: str, where: str, error: BaseException, effect: str) -> Incident:
        """Keep an incident without logging it."""
        message = describe_error(error)
        if len(message) > MESSAGE_LIMIT:
            message = f"{message[:MESSAGE_LIMIT]}…"
        incident = Incident(plugin, where, message, effect, "".join(traceback.format_exception(error, limit=FRAMES)))
        self.latest.append(incident)
        return incident


@dataclass(eq=False, repr=False)
class Caller:
    """Calls the hooks of one kernel.

    Attributes:
        order: (plugin, hook) -> the application's order.
        label: plugin -> its name in errors.
        tracer: traces the calls.
        registry: the implementations.
        incidents: records failures at run time.
    """

    order: Callable[[str, str], int]
    label: Callable[[str], str]
    tracer: Tracer
    registry: Registry
    incidents: Incidents

    def recording(self, incidents: Incidents) -> Caller:
        """Return a caller that records failures in (or raises them by) these incidents."""
        return replace(self, incidents=incidents)

    def plugins(self, hook: str, among: Iterable[str] | None = None) -> tuple[str, ...]:
        """Return the plugins that implement a hook, first to last."""
        return tuple(impl.plugin_name for impl in self._impls(hook, among))

    def _impls(self, hook: str, among: Iterable[str] | None) -> list[Any]:
        impls = self.registry.implementations(hook, lambda plugin: self.order(plugin, hook))
        if among is None:
            return list(impls)
        allowed = set(among)
        return [impl for impl in impls if impl.plugin_name in allowed]

    def _call(self, impl: Any, hook: str, arguments: Mapping[str, Any]) -> Any:
        try:
            return impl.function(*(arguments[name] for name in impl.argnames))
        except BaseException as error:
            error.add_note(f"plugin {self.label(impl.plugin_name)}, hook {hook}")
            raise

    @contextmanager
    def _contained(self, impl: Any, hook: str, fail: Callable[[str, str, BaseException], object]) -> Generator[None]:
        """Trace the call of one implementation; call `fail` with (plugin, where, error) for what it raises."""
        try:
            with self.tracer.step(impl.plugin_name, "hook", hook):
                yield
        except BaseException as error:
            reraise_control(error)
            fail(impl.plugin_name, f"hook {hook}", error)

    def collect(
        self,
        hook: str,
        arguments: Callable[[str], Mapping[str, Any]],
        *,
        among: Iterable[str] | None,
        drop: Callable[[str, str, BaseException], object],
        accept: Callable[[str, Any], Any] | None = None,
    ) -> list[Contribution[Any]]:
        """Return the contributions in order. A plugin that raises or returns a wrong type contributes nothing.

        Args:
            hook: its policy is `collect` or `one`.
            arguments: plugin name -> the hook's arguments.
            among: the plugins to call; None for all.
            drop: called with (plugin, where, error) for a plugin that failed.
            accept: called with (plugin, item); returns what is contributed, or raises. None takes every item.
        """
        policy = self.registry.policy(hook)
        out: list[Contribution[Any]] = []
        impls = self._impls(hook, among)
        kind = _kind(hook, policy) if impls else object
        for impl in impls:
            plugin = impl.plugin_name
            with self._contained(impl, hook, drop):
                items = _items(policy, self._call(impl, hook, arguments(plugin)))
                for item in items:
                    _check(policy, kind, item[1] if policy.mapping else item)
                # All of them, or none.
                out += [Contribution(plugin, item if accept is None else accept(plugin, item)) for item in items]
        return out

    def first(self, hook: str, arguments: Mapping[str, Any], *, among: Iterable[str] | None) -> Any:
        """Return the first result that is not None. A plugin that raises is skipped and recorded."""
        for impl in self._impls(hook, among):
            with self._contained(impl, hook, partial(self.incidents.record, effect="skipped")):
                result = self._call(impl, hook, arguments)
                if result is not None:
                    policy = self.registry.policy(hook)
                    _check(policy, _kind(hook, policy), result)
                    return result
        return None

    async def notify(
        self, hook: str, arguments: Callable[[str], Mapping[str, Any]], *, among: Iterable[str] | None
    ) -> None:
        """Call every plugin; record exceptions, ignore results."""
        from asyncio import CancelledError, current_task  # commands that run no agent import this module too

        for impl in self._impls(hook, among):
            with self._contained(impl, hook, partial(self.incidents.record, effect="ignored")):
                try:
                    result = self._call(impl, hook, arguments(impl.plugin_name))
                    if inspect.isawaitable(result):
                        await result
                except CancelledError as error:
                    if (task := current_task()) is not None and task.cancelling():
                        raise
                    raise PluginError("what it awaited was cancelled") from error  # not the run: that goes on

    def notify_now(self, hook: str, arguments: Callable[[str], Mapping[str, Any]], *, among: Iterable[str]) -> None:
        """`notify` for synchronous callers; refuse a plugin's coroutine."""
        for impl in self._impls(hook, among):
            with self._contained(impl, hook, partial(self.incidents.record, effect="ignored")):
                result = self._call(impl, hook, arguments(impl.plugin_name))
                if inspect.iscoroutine(result):
                    result.close()
                    raise TypeError(f"{hook} cannot be async: the kernel calls it while it creates the agent")

    async def strictest(
        self, hook: str, arguments: Callable[[str], Mapping[str, Any]], *, among: Sequence[str]
    ) -> Deny | list[Reason]:
        """Return why `among` ask, or the first denial. An exception or a wrong type denies."""
        from tool_expressions import Reason  # `deep plugins list` needs none of it

        reasons: list[Reason] = []
        impls = self._impls(hook, among)
        if gone := {*among} - {impl.plugin_name for impl in impls}:
            return Deny(f"the check of plugin {min(gone)} is gone (the kernel was closed), so the call is denied")
        for impl in impls:
            plugin = impl.plugin_name
            try:
                with self.tracer.step(plugin, "hook", hook):
                    result = self._call(impl, hook, arguments(plugin))
                    if inspect.isawaitable(result):
                        result = await result
                if result is not None and not isinstance(result, Allow | Ask | Deny):
                    raise PluginError(f"expected Allow, Ask, Deny or None, got {type(result).__name__}", plugin=plugin)
            except BaseException as error:
                reraise_control(error)
                self.incidents.record(plugin, f"hook {hook}", error, "the call was denied")
                return Deny(f"the check of plugin {plugin} failed ({type(error).__name__}), so the call is denied")
            if isinstance(result, Deny):
                return result
            if isinstance(result, Ask):
                reasons.append(Reason(result.kind, result.reason, plugin))
        return reasons


def _items(policy: HookPolicy, result: object) -> list[Any]:
    if result is None:
        return []
    if policy.policy == "one":
        return [result]
    if policy.mapping:
        if not is_table(result):
            raise PluginError(f"expected a mapping of names, got {type(result).__name__}")
        return [*result.items()]
    if isinstance(result, (str, bytes)) or is_table(result) or not is_iterable(result):
        raise PluginError(f"expected a list, got {type(result).__name__}")
    return [*result]  # a generator runs here, inside containment


def _kind(hook: str, policy: HookPolicy) -> type:
    """The class of a hook's items. An error here is the owner's, not a contributor's."""
    item = policy.item or "builtins:object"
    module, _, name = item.partition(":")
    try:
        kind: type = getattr(importlib.import_module(module), name)
        isinstance(None, kind)  # a protocol may refuse it
    except BaseException as error:
        reraise_control(error)
        raise PluginError(
            f"hook {hook} declares item={item!r}, which is not a class: {describe_error(error)}"
        ) from error
    return kind


def _check(policy: HookPolicy, kind: type, item: object) -> None:
    given = item if isinstance(item, type) else type(item)
    is_class = given is item and issubclass(given, kind)
    if policy.policy == "one":
        if not is_class:
            raise PluginError(f"expected a subclass of {kind.__name__}, got {item!r:.80}")
    elif not isinstance(item, kind):
        got = f"the class {given.__name__}; return an instance" if is_class else type(item).__name__
        raise PluginError(f"expected {kind.__name__}s, got {got}")
