"""The sessions that a process has loaded, and changes of their state beside and between runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deep_core import DeepAgentDeps, PluginKernel

from .errors import SessionBusy
from .fold import Fold, fold
from .journal import Journal, Tap, session_of
from .lease import Leases
from .plain import slots_of
from .store import Lease, SessionStore

if TYPE_CHECKING:
    from pydantic_ai.workspaces import WorkspaceBackend

__all__ = ["Edits", "Live", "Places", "Workspaces"]

Workspaces = Callable[[str], AbstractAsyncContextManager["WorkspaceBackend"]]


@dataclass(eq=False, repr=False)
class Live:
    """A session that this process has run, as it was left.

    Attributes:
        state: what the journal says.
        deps: what its tools get as `ctx.deps`.
    """

    state: Fold
    deps: DeepAgentDeps[Any]


@dataclass(eq=False, repr=False)
class Places:
    """What sessions are loaded with.

    Attributes:
        kernel: who made the agent.
        backend: makes or is the workspace of each session; None leaves it to the agent.
        workspaces: opens the workspace of a session for a run; used instead of `backend`.
        app: the application's own object, or a function that gets the session's id.
    """

    kernel: PluginKernel
    backend: WorkspaceBackend | Callable[[str], WorkspaceBackend | None] | None = None
    workspaces: Workspaces | None = None
    app: Any = None


class Edits:
    """Keeps sessions loaded between their runs, and writes changes of their state.

    Args:
        store: where the sessions are.
        leases: of the runs.
        places: what sessions are loaded with.
        keep: how many sessions stay loaded.
    """

    def __init__(self, store: SessionStore, leases: Leases, places: Places, keep: int) -> None:
        self._store = store
        self._leases = leases
        self._places = places
        self._keep = keep
        self.tap: Tap | None = None
        """Receives what is written."""
        self._live: OrderedDict[str, Live] = OrderedDict()
        self._backends: dict[str, WorkspaceBackend] = {}
        """The workspaces of sessions that are not loaded any more: a workspace in memory must outlast that."""
        self._open: dict[str, int] = {}
        """How many `edit` blocks a session is in: it stays loaded."""

    def journal(self, lease: Lease, state: Fold, run_id: str) -> Journal:
        """Open the journal of a session."""
        return Journal(self._store, lease, state, run_id, self.tap)

    def live(self, session_id: str) -> Live | None:
        """Return a session if it is loaded."""
        return self._live.get(session_id)

    def backend(self, session_id: str) -> WorkspaceBackend | None:
        """Return the workspace of a session that this process has run; None before its first use."""
        live = self._live.get(session_id)
        return self._backends.get(session_id) if live is None else live.deps.backend

    async def load(self, session_id: str) -> Live:
        """Return a session as the store has it now."""
        live = self._live.pop(session_id, None)
        if live is not None:
            info = await self._store.info(session_id)
            if info.seq != live.state.seq:
                live = None  # another process has run it since
            else:
                live.state.mail = [*await self._store.mail(session_id)]
        if live is None:
            live = self._made(session_id, fold(await self._store.load(session_id)))
        self._live[session_id] = live
        unused = [name for name in [*self._live] if name not in self._open] if len(self._live) > self._keep else []
        for old in unused[: max(0, len(self._live) - self._keep)]:
            self.unload(old)
        return live

    def _made(self, session_id: str, state: Fold) -> Live:
        kept, places = self._backends.pop(session_id, None), self._places
        backend = places.backend(session_id) if callable(places.backend) else places.backend
        app = places.app(session_id) if callable(places.app) else places.app
        session = session_of(state.root.slots)
        session.bind(places.kernel)
        return Live(state, DeepAgentDeps(backend=kept or backend, session_id=session_id, state=session, app=app))

    def unload(self, session_id: str) -> None:
        """Read the session from the store the next time. Its workspace stays: one in memory must outlast that."""
        gone = self._live.pop(session_id, None)
        if gone is not None and gone.deps.backend is not None and self._places.workspaces is None:
            self._backends[session_id] = gone.deps.backend

    def unload_unedited(self, session_id: str) -> None:
        """Unload a session unless an `edit` block has it."""
        if session_id not in self._open:
            self.unload(session_id)

    @asynccontextmanager
    async def workspace(self, session_id: str, live: Live) -> AsyncGenerator[None]:
        """Give a session its workspace in this block, where one is opened for each run."""
        async with AsyncExitStack() as stack:
            if self._places.workspaces is not None:
                live.deps.backend = await stack.enter_async_context(self._places.workspaces(session_id))
            yield

    @asynccontextmanager
    async def edit(self, session_id: str) -> AsyncGenerator[DeepAgentDeps[Any]]:
        """Yield what a session's tools get as `ctx.deps`. Store what changed at the end of the block.

        Raises:
            SessionBusy: another process runs the session.
            SessionNotFound: it does not exist.
        """
        async with AsyncExitStack() as stack:
            async with self._leases.lock(session_id):
                held = self._leases.here(session_id)
                live = held.live if held is not None and held.live is not None else await self.load(session_id)
                self._open[session_id] = self._open.get(session_id, 0) + 1
            stack.callback(self._left, session_id)
            await stack.enter_async_context(self.workspace(session_id, live))
            before = slots_of(live.deps.state)
            yield live.deps
            after = slots_of(live.deps.state)
            names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            if names:
                await self._write(session_id, live, {name: after.get(name) for name in names})

    def _left(self, session_id: str) -> None:
        self._open[session_id] -= 1
        if not self._open[session_id]:
            del self._open[session_id]

    async def _write(self, session_id: str, live: Live, slots: Mapping[str, Any]) -> None:
        """Write changes through the journal of the run under way, or under a lease where none is."""
        while True:
            async with self._leases.lock(session_id):
                held = self._leases.here(session_id)
                if held is None:
                    lease = await self._store.acquire(session_id, ttl=self._leases.ttl, create=False)
                    try:
                        is_same = (await self._store.info(session_id)).seq == live.state.seq
                        state = live.state if is_same else fold(await self._store.load(session_id))
                        await self.journal(lease, state, "").write_slots(slots)
                    finally:
                        await self._store.release(lease)
                    if not is_same:
                        self.unload(session_id)
                    return
            if held.live not in (None, live):
                raise SessionBusy(f"session {session_id} was run by another process meanwhile: try it again")
            if held.journal is not None:
                await held.journal.write_slots(slots)
                return
            await (held.over if held.began.is_set() else held.began).wait()
