"""A session: its backend, the application's own object, and the state slots of plugins."""

from __future__ import annotations

import json
import threading
import uuid
from asyncio import current_task, get_running_loop, wait
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass, replace
from functools import cache, lru_cache, partial
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeGuard, TypeVar, cast, get_args, get_origin, overload

from ...errors import describe_error, reraise_control, suggest, warn
from ...plugins.contributions import StateSlot
from ...tables import is_table

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

    from pydantic import TypeAdapter
    from pydantic_ai import RunContext
    from pydantic_ai.workspaces import WorkspaceBackend

    from ...plugins.kernel import PluginKernel

T = TypeVar("T")
App = TypeVar("App", covariant=True)  # the kernel only hands the application's object on
NewApp = TypeVar("NewApp")
Deps: TypeAlias = "DeepAgentDeps[object]"
"""Any session: whatever application it belongs to."""
Ctx: TypeAlias = "RunContext[DeepAgentDeps[object]]"
"""The context of a run, in any session."""
Args: TypeAlias = dict[str, object]
"""A call's validated arguments."""
FORMAT = 1
"""Version of the text that `DeepAgentDeps.dump` writes."""
_warn_once = cache(warn)  # in a process: a client sends its state with each request, and filters may show each warning
STATE_IS_SET = (
    "set one slot, deps.state[SLOT] = …; what a client sends is its UI adapter's .state: give it as "
    "create_default_deps(app=…)"
)


class SessionState:
    """The slots of one session, by slot (`state[TODOS]`, typed) or by name (`state["todos"]`).

    A value is made from the slot's default on first use. What was loaded for a slot that no plugin claims, or that
    no longer validates, is kept as it was and written out again.
    """

    def __init__(
        self,
        *,
        stored: Mapping[str, Any] | None = None,
        kept: Mapping[str, Any] | None = None,
        parent: SessionState | None = None,
    ) -> None:
        self._values: dict[str, Any] = {}
        self._slots: dict[str, StateSlot[Any]] = {}
        self._stored: dict[str, Any] = dict(stored or {})
        self.parent = parent
        """The state of the session that started this subagent's."""
        self.bound: PluginKernel | None = None
        """The kernel that created or first ran this session; None before."""
        self._run: tuple[AbstractEventLoop, str, Task[Any] | None] | None = None
        self._lock = threading.RLock()  # tools run in threads too; a default must be made once
        self.invalid: dict[str, str] = {}
        """The slots whose stored data did not validate, each with the reason."""
        self.kept: dict[str, Any] = dict(kept or {})
        """The stored data that did not validate. `dump` writes it again, beside the slots."""
        self._dumped: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        """Of slots that hold frozen values by name: their values at the last dump, and what it wrote."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what `dump` stores: without the kernel, and without the slots that are never stored."""
        return partial(SessionState, stored=self.dump(), kept=self.overwritten(), parent=self.parent), ()

    def bind(self, kernel: PluginKernel | None) -> None:
        """Set the kernel that knows the slots by name. The first one stays."""
        self.bound = self.bound or kernel

    @contextmanager
    def hold(self, kernel: PluginKernel, label: str) -> Generator[None]:
        """Keep other runs out of the session, and the kernel from closing, while the block runs.

        Raises:
            pydantic_ai.UserError: another run holds the session.
        """
        run = get_running_loop(), label, current_task()
        with self._lock:
            if self._run is not None and self._run[0].is_running():  # a run in a stopped event loop is abandoned
                from pydantic_ai import UserError

                raise UserError(
                    f"{self._run[1]} has not ended, and a session has one run at a time. Await that run (if it "
                    "streams: leave its `with` block), or give this run a session of its own: "
                    "deps=create_default_deps(); in a tool that runs an agent: deps=ctx.deps.clone_for_subagent()"
                )
            self._run = run
        kernel.runs.append(run[:2])
        try:
            yield
        finally:
            self._run = None if self._run is run else self._run
            with kernel.run_ended:
                kernel.runs.remove(run[:2])
                kernel.run_ended.notify_all()

    async def release(self) -> None:
        """End what a run has left here, once `Agent.run` is over.

        Pydantic AI forgets the task of its hooks if a run is cancelled in the moment in which they have begun. The task
        would hold the session for ever.
        """
        if self._run is not None and self._run[2] is not None and self._run[2].cancel():
            await wait([self._run[2]])

    @overload
    def __getitem__(self, key: StateSlot[T]) -> T: ...
    @overload
    def __getitem__(self, key: str) -> Any: ...
    def __getitem__(self, key: StateSlot[Any] | str) -> Any:
        name = key if isinstance(key, str) else key.name
        try:
            return self._values[name]
        except KeyError:
            return self._make(self._known(key) if isinstance(key, str) else key)

    def __setitem__(self, key: StateSlot[Any] | str, value: Any) -> None:
        slot = self._known(key) if isinstance(key, str) else key
        if slot.child == "share" and self.parent is not None:
            self.parent[slot] = value
            return
        with self._lock:
            self._slots[slot.name] = slot
            self._values[slot.name] = value

    def __contains__(self, key: object) -> bool:
        name = key.name if isinstance(key, StateSlot) else key
        # To look makes no kernel; to read a slot does.
        return name in self._values or name in self._stored or (self.bound is not None and name in self.bound.slots)

    def get(self, key: StateSlot[T] | str, default: Any = None) -> Any:
        """Return a slot's value, or `default` if no plugin owns a slot of that name."""
        # Asked before it is read: an error's suggestion costs more than ten slots (deep-summarization asks each turn).
        known = isinstance(key, StateSlot) or key in self._slots or key in self.kernel.slots
        return self[key] if known else default

    def names(self) -> Iterator[str]:
        """Return the names of the slots that are in use or loaded."""
        return iter(sorted(self._values.keys() | self._stored.keys()))

    __iter__ = names

    @property
    def kernel(self) -> PluginKernel:
        """The kernel that knows the names: the first one bound, else the default kernel, which is not bound."""
        if self.bound is not None:
            return self.bound
        from ...plugins.kernel import default_kernel

        return default_kernel()

    def _known(self, name: str) -> StateSlot[Any]:
        registry = self._slots if name in self._slots else self.kernel.slots
        if name not in registry:
            raise KeyError(f"no plugin owns a state slot {name!r}.{suggest(name, registry)}")
        return registry[name]

    def _make(self, slot: StateSlot[Any]) -> Any:
        if slot.child == "share" and self.parent is not None:
            return self.parent[slot]
        with self._lock:
            if slot.name not in self._values:
                self._slots[slot.name], self._values[slot.name] = slot, self._restore(slot)
            return self._values[slot.name]

    def _restore(self, slot: StateSlot[Any]) -> Any:
        stored = self._stored.pop(slot.name, None)
        if stored is None or not slot.persist:  # what is never stored is not taken from a text either
            return slot.default()
        data, version = stored["data"], stored["version"]
        try:
            if version != slot.version:
                if slot.migrate is None:
                    raise ValueError(f"stored as version {version}, this is version {slot.version}, no migrate")
                data = slot.migrate(data, version)
            return _adapter(slot).validate_python(data)
        except BaseException as error:  # noqa: BLE001 - whatever a plugin's migrate raises, the data is kept
            reraise_control(error)
            self.invalid[slot.name] = describe_error(error)
            self.kept[slot.name] = stored
            return slot.default()

    def overwritten(self) -> dict[str, Any]:
        """Return the data that did not validate and whose slot was set since. It is stored beside the slots."""
        slots = self._slots
        return {n: old for n, old in self.kept.items() if n not in slots or self._values[n] != slots[n].default()}

    def dump(self) -> dict[str, Any]:
        """Return the persisted slots as JSON values: name -> {version, data}. Slots without an owner are unchanged.

        Raises:
            ValueError: a slot's value is not of its type, so that it cannot be written as JSON.
        """
        with self._lock:
            out: dict[str, Any] = dict(self._stored)
            for name, value in self._values.items():
                slot = self._slots[name]
                if slot.persist and name in self.kept and value == slot.default():
                    out[name] = self.kept[name]  # the slot was not set since: a fixed plugin may still read it
                elif slot.persist:
                    try:
                        out[name] = {"version": slot.version, "data": self._dump(slot, value)}
                    except Exception as error:
                        raise ValueError(f"state slot {name!r} cannot be stored: {describe_error(error)}") from error
        return dict(sorted(out.items()))

    def _dump(self, slot: StateSlot[Any], value: Any) -> Any:
        if not value and type(value) in (list, dict):  # JSON by itself; to load its type may be to import a library
            return type(value)()
        if not _holds_frozen(slot) or not is_table(value):
            return _adapter(slot).dump_python(value, mode="json")
        # A session that has seen hundreds of files is dumped at every step: write what was replaced since.
        values = value
        before, data = self._dumped.get(slot.name, ({}, {}))
        changed = {name: each for name, each in values.items() if before.get(name) is not each}
        if changed or [*before] != [*values]:
            data = {**data, **_adapter(slot).dump_python(changed, mode="json")}
            data = {name: data[name] for name in values}
            self._dumped[slot.name] = {**values}, data
        return data

    def child(self) -> SessionState:
        """Return a subagent's state: shared slots are the same objects, all others are fresh."""
        state = SessionState(parent=self)
        state.bound = self.bound
        return state


class SessionStates:
    """The sessions of one toolset in agents of any kind.

    A session in deps has its own state. In an agent with other deps each conversation has one; of these, the 1,000 that
    were used last are remembered.
    """

    def __init__(self) -> None:
        self._states = lru_cache(1_000)(self._new)

    def _new(self, conversation: str | None) -> SessionState:
        return SessionState()

    def state(self, ctx: RunContext[Any]) -> SessionState:
        """Return the state of the run's session, which other conversations never see."""
        own = getattr(ctx.deps, "state", None)
        # Messages without a conversation have a state for this run only.
        return own if isinstance(own, SessionState) else self._states(ctx.conversation_id or ctx.run_id)


def _are_slots(slots: object) -> TypeGuard[dict[str, object]]:
    values = slots.values() if is_table(slots) else (None,)
    return all(is_table(slot) and {"version", "data"} <= slot.keys() for slot in values)


@lru_cache(256)  # to make one takes a millisecond
def _adapter(slot: StateSlot[Any]) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter[Any](_declared(slot))


@lru_cache(256)
def _holds_frozen(slot: StateSlot[Any]) -> bool:
    """Whether a slot is a `dict` from names to frozen dataclasses: one that is still the same object is unchanged."""
    declared = _declared(slot)
    key, value = get_args(declared) if get_origin(declared) is dict else (None, None)
    return key is str and is_dataclass(value) and cast("Any", value).__dataclass_params__.frozen


def _declared(slot: StateSlot[Any]) -> Any:
    declared: Any = slot.type
    is_factory = callable(declared) and not isinstance(declared, type) and not hasattr(declared, "__origin__")
    return cast("Any", declared)() if is_factory else declared


@dataclass
class DeepAgentDeps(Generic[App]):
    """A session. Tools see it as `ctx.deps`. It holds everything that a run changes.

    Attributes:
        backend: the session's workspace. None means the agent's own, created in the first run.
        session_id: identifies the session in logs and stores.
        state: the plugins' slots. `deps.todos` is short for `deps.state["todos"]`; `deps.upload_file(…)` calls a
            method that a plugin gives every session.
        app: the application's own object; the kernel does not change it.
        depth: 0 in the agent, 1 in a subagent, and so on.
    """

    backend: WorkspaceBackend | None = None
    session_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: SessionState = field(default_factory=SessionState)
    app: App = None  # pyright: ignore[reportAssignmentType]  # not optional to who gave one
    depth: int = 0

    def __getattr__(self, name: str) -> Any:
        # Only reached for what is not a field: plugins' methods and slots, by name.
        if name.startswith("_") or "state" not in self.__dict__:
            raise AttributeError(name)
        method = self.state.kernel.session_methods.get(name)
        if method is not None:
            return partial(method, self)
        try:
            return self.state[name]
        except KeyError as error:
            raise AttributeError(f"DeepAgentDeps has no field and no state slot {name!r}") from error

    def __setattr__(self, name: str, value: Any) -> None:
        # By hand, because plugins name the slots: each kernel has others, so no class can have them as properties, and
        # a frozen class would refuse `deps.backend = …` too. What it stops was done silently: as an
        # attribute `deps.todos = […]` hid the slot from the plugin, a misspelt name was never read, and a UI adapter
        # put what the browser sent in the place of every slot.
        if name == "state" and not isinstance(value, SessionState):
            self._refuse_state(value)
        elif name.startswith("_") or hasattr(type(self), name) or name in type(self).__dataclass_fields__:
            object.__setattr__(self, name, value)
        elif name in self.state.kernel.slots:
            self.state[name] = value
        else:
            hint = suggest(name, self.state.kernel.slots)
            absent = f"DeepAgentDeps has no field and no state slot {name!r}"
            raise AttributeError(f"{absent}.{hint} Your own object goes in app=")

    def _refuse_state(self, value: object) -> None:
        # Pydantic AI's UI adapters take whatever has a field `state` for theirs and write into it what the browser
        # sent, `{}` where that is nothing. A client must not reach the plugins' state; the run goes on without.
        if "state" not in self.__dict__ or not isinstance(value, Mapping):
            raise TypeError(f"deps.state is a SessionState, not {type(value).__name__}; {STATE_IS_SET}")
        if value:
            _warn_once(f"what was written to deps.state is ignored, a session's state is its plugins'; {STATE_IS_SET}")

    def dump(self) -> str:
        """Return the session as JSON text: its id and its persisted slots, without the backend and `app`."""
        slots = self.state.dump()
        kept = self.state.overwritten()
        more = {"kept": kept} if kept else {}
        return json.dumps({"format": FORMAT, "session_id": self.session_id, "slots": slots, **more})

    @classmethod
    def load(
        cls,
        text: str,
        *,
        backend: WorkspaceBackend | None = None,
        kernel: PluginKernel | None = None,
        app: NewApp = None,
    ) -> DeepAgentDeps[NewApp]:
        """Load a session from a text that `dump` wrote.

        A slot is validated on first use. If its plugin is absent or its data does not validate, its data stays
        unchanged (`state.invalid` has the reason).

        Raises:
            ValueError: the text is not such a dump, or of a later format.
        """
        try:
            raw: object = json.loads(text)
        except ValueError as error:
            raise ValueError(f"not a session dump: {error}") from error
        data = raw if is_table(raw) else {}
        slots, kept = data.get("slots"), data.get("kept", {})  # of any shape: another program may have written it
        session_id = data.get("session_id")
        if not isinstance(session_id, str) or not _are_slots(slots) or not _are_slots(kept):
            raise ValueError("not a session dump: use the text that DeepAgentDeps.dump() wrote")
        if data.get("format") != FORMAT:
            raise ValueError(f"a session dump of format {data.get('format')!r}; this deep-agent-core reads {FORMAT}")
        state = SessionState(stored=slots, kept=kept)
        state.bind(kernel)
        return DeepAgentDeps(backend=backend, session_id=session_id, state=state, app=app)

    def clone_for_subagent(self) -> DeepAgentDeps[App]:
        """Return a subagent's session: the same backend and `app`, slots as they declare, one level deeper."""
        return replace(self, state=self.state.child(), depth=self.depth + 1)


def session(ctx: Ctx) -> Deps:
    """Return the session of a run.

    Raises:
        pydantic_ai.UserError: the run has no session; the message shows the line to add.
    """
    deps = ctx.deps
    if isinstance(deps, DeepAgentDeps):  # pyright: ignore[reportUnnecessaryIsInstance] - whatever the caller gave
        return deps
    from pydantic_ai import UserError

    raise UserError(
        f"this agent needs a session as deps, and got {type(deps).__name__}. Add: "
        "agent.run(…, deps=deep_core.create_default_deps())  (your own object goes in: create_default_deps(app=…))"
    )


def create_default_deps(
    backend: WorkspaceBackend | None = None, app: NewApp = None, kernel: PluginKernel | None = None
) -> DeepAgentDeps[NewApp]:
    """Create a session.

    Args:
        backend: its workspace; None means the agent's own, created in the first run.
        app: the application's own object, as `ctx.deps.app`.
        kernel: who knows the slots by name; None means the process's default kernel, or the agent's at the first run.
    """
    deps = DeepAgentDeps(backend=backend, app=app)
    deps.state.bind(kernel)
    return deps
