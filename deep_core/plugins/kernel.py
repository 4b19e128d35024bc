"""The kernel: the plugins, their status, and the calls of their hooks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from inspect import isawaitable, iscoroutine
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from ..errors import ConfigError, PluginError, clash_message, reraise_control, suggest, warn
from ..tracing import Trace, Tracer
from .context import PluginContext
from .contributions import StateSlot
from .dispatch import Caller, Incident, Incidents
from .index import PluginRecord, Status, remember, shield_pydantic
from .load import failure_of, load
from .registry import Registry
from .status import ConfigSource, entry_source, find_plugins

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from .options import PluginOptions

SESSION_NAMES = ("app", "backend", "clone_for_subagent", "depth", "dump", "load", "session_id", "state")
"""Fields and methods of `DeepAgentDeps`: no slot or session method can have these names."""


CLOSE_WAIT = 30.0
"""Seconds that closing a kernel waits for runs under way."""


class PluginKernel:
    """Find plugins, check them, order them, and call their hooks.

    Args:
        plugins: modules or objects with hook implementations, besides the installed ones.
        discover: False uses no installed plugin, and reads no configuration file and no environment variable.
        read_config: False reads no configuration file and no environment variable; installed plugins are used.
        allow: only these plugins may load (names of plugins or distributions).
        disable: these are left out, before import.
        require: these must load, or nothing starts.
        config: a configuration file or mapping, trusted as code is.
        strict: every plugin that fails raises, at load and at run time.
        data_dir: where plugins keep lasting data; None means the user's own folder (platformdirs).

    Raises:
        PluginError: a plugin given by hand or required did not load, or two plugins claim one state slot.
        ConfigError: a configuration key, value or listed name is wrong.
    """

    def __init__(
        self,
        *,
        plugins: Sequence[object] = (),
        discover: bool = True,
        read_config: bool = True,
        allow: Iterable[str] | None = None,
        disable: Iterable[str] = (),
        require: Iterable[str] = (),
        config: ConfigSource | None = None,
        strict: bool = False,
        data_dir: str | os.PathLike[str] | None = None,
    ) -> None:
        self._closed = False
        self._closers: list[tuple[str, Callable[[], object]]] = []
        self.runs: list[tuple[AbstractEventLoop, str]] = []  # those under way, with what errors call them
        self.run_ended = threading.Condition()
        self._close_error: BaseException | None = None
        self._lock = threading.RLock()
        self._incidents = Incidents(strict)
        self._reported: set[tuple[str, str, type[BaseException]]] = set()
        self.latest = self._incidents.latest
        self.strict = strict
        self._data_dir = data_dir
        found = find_plugins(
            plugins=plugins,
            discover=discover,
            read_config=read_config,
            allow=allow,
            disable=disable,
            require=require,
            config=config,
            remembered=False,
        )
        shield_pydantic(found.candidates)
        self.config = found.config
        self.records = found.records
        self.plugins: Mapping[str, PluginRecord] = MappingProxyType(_by_name(found.records))
        self.required = found.config.plugin_list("require") or ()
        self._settings = {record.name: found.config.plugin(record.name) for record in found.records}
        for message in (*found.warnings, *self._config_warnings()):
            warn(message)
        self._registry = Registry()
        traced = discover and read_config and os.environ.get("DEEP_TRACE", "") not in ("", "0")
        self.tracer = Tracer(to_stderr=traced)
        self.caller = Caller(self.order, self.label, self.tracer, self._registry, self._incidents)
        for record in found.records:
            if record.status != "active":
                self._report(record)
        if discover and not found.records:
            warn(
                "no plugin is installed, so agents have no tools: pip install deep-everything, or single ones, such as "
                "deep-filesystem"
            )
        load(found.candidates, self._registry, self._report, self.tracer)
        self._check_orders()
        slots, methods = self._collect_session()
        self.slots: Mapping[str, StateSlot[Any]] = MappingProxyType(slots)
        self.session_methods: Mapping[str, Callable[..., Any]] = MappingProxyType(methods)
        remember(found.candidates)

    def _config_warnings(self) -> Iterable[str]:
        """Return what the agent layer warns about in its part of the configuration, once for every kernel."""
        return ()

    # -- plugins -------------------------------------------------------------------------------------------------

    def order(self, plugin: str, hook: str) -> int:
        """Return the application's order for a plugin in a hook."""
        return self._settings[plugin].order_in(hook)

    def _is_named(self, record: PluginRecord) -> bool:
        return record.distribution is None or entry_source(record, self.required) is not None

    def _check_orders(self) -> None:
        known = {hook.removeprefix("deep_") for hook in self.hooks}
        for name, settings in self._settings.items():
            for hook, value in settings.order.items() if isinstance(settings.order, Mapping) else ():
                where = f"{settings.sources['order']}: plugins.{name}.order.{hook}"
                if hook not in known:
                    raise ConfigError(f"{where}: there is no such hook.{suggest(hook, known)}")
                if not isinstance(value, int) or isinstance(value, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise ConfigError(f"{where}: must be a number, not {value!r}")

    def _report(self, record: PluginRecord) -> None:
        """Report a plugin that is not used: raise if someone named it, else warn once."""
        message = record.summary
        if (self.strict and record.status not in ("disabled", "blocked")) or self._is_named(record):
            raise PluginError(message, plugin=record.name) from record.error
        if record.status not in ("disabled", "blocked"):
            warn(message)

    def _collect_session(self) -> tuple[dict[str, StateSlot[Any]], dict[str, Callable[..., Any]]]:
        """Collect the state slots and methods of sessions. Each name has one owner."""
        slots = self.caller.collect("deep_state", lambda plugin: {}, among=self.active, drop=self._drop)
        methods = self.caller.collect("deep_session_methods", lambda plugin: {}, among=self.active, drop=self._drop)
        names = [("state slot", c.value.name, c.plugin) for c in slots]
        names += [("session method", c.value[0], c.plugin) for c in methods]
        for kind, name, plugin in names:
            if name.startswith("deep_"):
                why = f"{kind} {name!r}: names that begin with deep_ are the kernel's own; rename it"
                self._drop(plugin, "its session", PluginError(why))
        # A plugin that fails contributes nothing, never half.
        slots, methods = ([c for c in found if c.plugin in self.active] for found in (slots, methods))
        owners: dict[str, str] = dict.fromkeys(SESSION_NAMES, "deep_core")
        self.check_unique("state slot", [(c.value.name, c.plugin) for c in slots], owners)
        self.check_unique("session method", [(c.value[0], c.plugin) for c in methods], owners)
        return {c.value.name: c.value for c in slots}, dict(c.value for c in methods)

    def check_unique(self, kind: str, names: Iterable[tuple[str, str]], owners: dict[str, str] | None = None) -> None:
        """Raise a PluginError if two plugins use one name. `names` are (name, plugin); `owners` has earlier ones."""
        owners = {} if owners is None else owners
        for name, plugin in names:
            if name in owners:
                raise PluginError(clash_message(kind, name, [(p, self.label(p)) for p in (owners[name], plugin)]))
            owners[name] = plugin

    def _drop(self, plugin: str, where: str, error: BaseException) -> None:
        """Leave out a plugin that fails while the kernel loads."""
        record = self.plugins[plugin]
        record.fail(*failure_of(record, error, where), error)
        self._report(record)

    def leave_out(
        self, plugin: str, where: str, error: BaseException, *, must_work: bool = False
    ) -> tuple[Status, str]:
        """Report a plugin that failed for one agent: a warning and an incident, once for each kind of failure.

        Only that agent goes without it. The plugin stays active, and the next agent asks it again.

        Returns:
            Its status for that agent, and the reason: what is wrong, where, and what to type.

        Raises:
            PluginError: it must work, because code or configuration names it, or the kernel is strict.
        """
        record = self.plugins[plugin]
        status, reason = failure_of(record, error, where)
        if must_work or self.strict or self._is_named(record):
            raise PluginError(f"plugin {record.label} failed: {reason}", plugin=plugin) from error
        kind = (plugin, where, type(error))
        with self._lock:
            is_new = kind not in self._reported
            self._reported.add(kind)
        if is_new:
            self._incidents.keep(plugin, where, error, "it was left out of the agent")
            warn(f"plugin {record.label} failed and was left out of an agent: {reason}")
        return status, reason

    def context(self, plugin: str) -> PluginContext:
        """Return a plugin's options, folders and logger outside any agent: for its commands, jobs and tests.

        Raises:
            PluginError: no active plugin has that name, or the kernel is closed.
        """
        self.check_open()
        if plugin not in self.active:
            raise PluginError(f"kernel.context({plugin!r}): {self.describe(plugin)}", plugin=plugin)
        return PluginContext(plugin, self, partial(self._options, plugin))

    def _options(self, plugin: str) -> PluginOptions | None:
        from .options import validate_options

        model = self.option_models().get(plugin)
        return model and validate_options(plugin, model, self._settings[plugin])[0]

    @property
    def data_dir(self) -> Path:
        """The folder of the plugins' lasting data, with one folder for each plugin."""
        from platformdirs import user_data_path

        return Path(self._data_dir) if self._data_dir is not None else user_data_path("deep")

    def describe(self, plugin: str) -> str:
        """Describe a plugin's status and its reason, or say that no plugin has that name."""
        record = self.plugins.get(plugin)
        if record is None:
            return f"this kernel has no plugin {plugin!r}.{suggest(plugin, self.plugins)}"
        return record.summary

    def option_models(
        self, drop: Callable[[str, str, BaseException], object] | None = None
    ) -> Mapping[str, type[PluginOptions]]:
        """Return the options model of every active plugin that has one. `drop` is called for a plugin that fails."""
        drop = drop or self.leave_out
        found = self.caller.collect("deep_options", lambda plugin: {}, among=self.active, drop=drop)
        return {item.plugin: item.value for item in found}

    @property
    def active(self) -> tuple[str, ...]:
        """The plugins in use, by name."""
        loaded = {name: record for name, record in self.plugins.items() if record.hooks is not None}
        return tuple(name for name, record in loaded.items() if record.status == "active")

    @property
    def incidents(self) -> tuple[Incident, ...]:
        """The last hundred failures of plugins at run time."""
        return tuple(self.latest)

    @property
    def hooks(self) -> Mapping[str, str | None]:
        """Every hook, and the plugin that owns it (None: the kernel)."""
        return self._registry.hooks

    def label(self, plugin: str) -> str:
        """Return a plugin's name in errors: `weather 0.1.0 (acme-weather)`."""
        record = self.plugins.get(plugin)
        return record.label if record is not None else "the application" if plugin == "app" else plugin

    def trace(self) -> AbstractContextManager[Trace]:
        """Record the hook calls, tools, sections and processors of plugins while the block runs, nested.

        with kernel.trace() as trace:
            agent.run_sync("…", deps=deps)
        print(trace)
        """
        return self.tracer.trace()

    def check_open(self) -> None:
        """Raise a PluginError if the kernel is closed."""
        if self._closed:
            raise PluginError("this kernel is closed; make a new one")

    # -- the end -------------------------------------------------------------------------------------------------

    def _under_way(self) -> list[str]:
        # A run whose event loop has stopped cannot end: closing does not wait for it.
        return [label for loop, label in self.runs if loop.is_running()]

    def _await_runs(self, seconds: float) -> None:
        with self.run_ended:
            self.run_ended.wait_for(lambda: not self._under_way(), seconds)

    def on_close(self, plugin: str, function: Callable[[], object]) -> None:
        """Register a function that closing runs."""
        self._closers.append((plugin, function))

    async def aclose(self, wait: float = CLOSE_WAIT) -> None:
        """Wait for runs under way, then run the functions that plugins registered with `on_close`, the last one first.

        The kernel creates no agents afterwards. Closing again does nothing.

        Args:
            wait: seconds to wait for runs. After that the kernel closes anyway, and a warning names the runs.
        """
        from asyncio import to_thread

        if self._under_way():
            await to_thread(self._await_runs, wait)
        for plugin, function in self._close():
            with self._contained(plugin):
                result = function()
                if isawaitable(result):
                    await result

    def close(self, wait: float = CLOSE_WAIT) -> None:
        """Close the kernel in a program without an event loop. Async functions run in a new event loop.

        Inside a running event loop, `close` waits for no run and cannot run async functions: use `aclose` there.
        """
        import asyncio

        try:
            has_loop = bool(asyncio.get_running_loop())
        except RuntimeError:
            has_loop = False
            self._await_runs(wait)
        for plugin, function in self._close():
            with self._contained(plugin):
                result = function()
                if iscoroutine(result) and has_loop:
                    result.close()
                    raise PluginError(f"kernel.close() cannot await {result.__qualname__}: use await kernel.aclose()")
                if isawaitable(result):
                    with closing(asyncio.new_event_loop()) as loop:  # asyncio.run would drop that of agent.run_sync
                        loop.run_until_complete(result)

    def _close(self) -> Iterator[tuple[str, Callable[[], object]]]:
        self._closed = True
        if runs := self._under_way():
            warn(f"the kernel was closed while {len(runs)} runs were under way: {', '.join(runs)}")
        while self._closers:
            yield self._closers.pop()
        self._registry.clear()
        if self._close_error is not None and self.strict:
            raise self._close_error

    @contextmanager
    def _contained(self, plugin: str) -> Generator[None]:
        try:
            yield
        except BaseException as error:
            reraise_control(error)
            self._close_error = self._close_error or error
            self._incidents.note(plugin, "on_close", error, "closing continued")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self.active) or 'no plugins'})"


def _by_name(records: Sequence[PluginRecord]) -> dict[str, PluginRecord]:
    """Return the records by name. Of several with one name, the one in use has it, others are `name@distribution`."""
    groups: dict[str, list[PluginRecord]] = {}
    for record in records:
        groups.setdefault(record.name, []).append(record)
    out: dict[str, PluginRecord] = {}
    for name, doubles in groups.items():
        rivals = [record for record in doubles if record.status not in ("disabled", "blocked")]
        for record in doubles:
            plain = len(doubles) == 1 or rivals == [record]
            out[name if plain else f"{name}@{record.distribution or 'hand'}"] = record
    return out


_default: PluginKernel | None = None
_default_lock = threading.Lock()


def default_kernel() -> PluginKernel:
    """Return the kernel of the process, with every installed plugin. The first call creates it."""
    global _default
    with _default_lock:
        if _default is None or _default._closed:  # pyright: ignore[reportPrivateUsage]
            _default = PluginKernel()
        return _default
