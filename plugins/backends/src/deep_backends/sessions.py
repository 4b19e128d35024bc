"""One workspace a session, over any factory: made on first use, kept while it is used, released when it was idle."""

from __future__ import annotations

import inspect
import logging
import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeAlias, runtime_checkable

import anyio
import anyio.abc
from pydantic_ai.workspaces import WorkspaceBackend

from deep_core.plugin_api import folder_name

from .factories import docker_backend

__all__ = [
    "SessionFactory",
    "SessionInUseError",
    "SessionLimitError",
    "SessionManager",
    "SessionPlace",
    "SupportsDispose",
    "docker_session",
    "session_directory_name",
]

logger = logging.getLogger(__name__)
IDLE_SECONDS = 3600.0
CLEANUP_SECONDS = 60.0
GRACE_SECONDS = 30.0


class SessionLimitError(RuntimeError):
    """There are as many sessions as there may be; the caller is to try later.

    Attributes:
        limit: how many there may be.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(
            f"there are {limit} sessions, as many as there may be, and none is idle: release one, or try again later"
        )


class SessionInUseError(RuntimeError):
    """Somebody works in the session that is to be released."""


@dataclass(frozen=True)
class SessionPlace:
    """What a factory is told of the session that it makes a backend for.

    Attributes:
        session_id: as the application calls the session: any text, possibly a user's.
        name: the same as a safe name of a file, a directory or a container; no two ids share one.
        root: the session's own directory, made before the factory is called; None where the manager has no root.
    """

    session_id: str
    name: str
    root: Path | None = None


SessionFactory: TypeAlias = Callable[[SessionPlace], WorkspaceBackend | Awaitable[WorkspaceBackend]]
"""Makes one session's backend; may be async."""


@runtime_checkable
class SupportsDispose(Protocol):
    """A backend that holds something of the machine, such as a container, until it is told to give it back."""

    async def dispose(self) -> None:
        """Give back what the backend holds. Doing it twice is fine."""
        ...


def session_directory_name(session_id: str) -> str:
    """The name of a session's directory or container: safe on every file system, different for different ids.

    Raises:
        ValueError: the id is empty.
    """
    if not session_id:
        raise ValueError("a session id cannot be empty")
    return folder_name(session_id)


def docker_session(place: SessionPlace) -> WorkspaceBackend:
    """The factory that a manager uses by default: a container, with the session's directory as its `/workspace`.

    Without a root the files are in the container only, and go with it.
    """
    volumes = None if place.root is None else {str(place.root): "/workspace"}
    return docker_backend(volumes=volumes, container_name=f"deep-session-{place.name}")


@dataclass(eq=False)
class _Session:
    """One session id, from the first request for it until nobody wants it and it holds nothing."""

    place: SessionPlace
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0
    """Tasks that hold or wait for the lock: the entry must not be replaced under them."""
    users: int = 0
    backend: WorkspaceBackend | None = None
    last_used: float = 0.0


class SessionManager:
    """One workspace a session: made on first use, kept while it is used, released when it was idle for long.

        async with SessionManager(lambda session: local_backend(session.root), root="/srv/sessions") as manager:
            async with manager.use("ann") as backend:
                await agent.run("…", deps=create_default_deps(backend=backend))

    Entering it starts the cleanup loop, leaving it is `shutdown()`. Without `async with` nothing is cleaned up unless
    `cleanup_idle()` is called. For one event loop, asyncio's or trio's.

    Releasing a session disposes of its backend (`SupportsDispose`: docker's removes the container). Its directory
    below `root` stays, and is the session's again when it comes back.

    Args:
        factory: makes one session's backend; by default a docker container (`docker_session`).
        root: below it every session has a directory of its own, made with mode 0700. None: sessions have none.
        max_sessions: how many sessions may have a backend at one time; None means any number.
        idle_timeout: seconds without use after which a session is released.
        cleanup_interval: seconds between two rounds of the cleanup loop.
        clock: the seconds now; what idle is measured with.
        on_release: told the id of each session that was released, after it was.
    """

    def __init__(
        self,
        factory: SessionFactory = docker_session,
        *,
        root: str | Path | None = None,
        max_sessions: int | None = None,
        idle_timeout: float = IDLE_SECONDS,
        cleanup_interval: float = CLEANUP_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        on_release: Callable[[str], None] | None = None,
    ) -> None:
        if max_sessions is not None and max_sessions < 1:
            raise ValueError(f"max_sessions is at least 1, or None for any number; got {max_sessions}")
        if idle_timeout <= 0 or cleanup_interval <= 0:
            raise ValueError("idle_timeout and cleanup_interval are seconds, more than 0")
        self._factory = factory
        self._root = None if root is None else Path(root).absolute()
        self._max_sessions = max_sessions
        self._idle_timeout = idle_timeout
        self._cleanup_interval = cleanup_interval
        self._clock = clock
        self._on_release = on_release
        self._sessions: dict[str, _Session] = {}
        self._making = 0
        self._closed = False
        self._unused: anyio.Event | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._loop: anyio.CancelScope | None = None

    # -- a session -----------------------------------------------------------------------------------------------

    @property
    def session_ids(self) -> tuple[str, ...]:
        """The sessions that have a backend now."""
        return tuple(id for id, session in self._sessions.items() if session.backend is not None)

    def in_use(self, session_id: str) -> bool:
        """Whether the session is in a `use` block."""
        session = self._sessions.get(session_id)
        return session is not None and session.users > 0

    async def get_or_create(self, session_id: str) -> WorkspaceBackend:
        """The session's backend. However many ask at once, it is made once; if making fails, the next one tries anew.

        It counts as used now, and may be released when it was idle for long: whoever works longer than that without
        asking again wants `use`.

        Raises:
            ValueError: the id is empty.
            SessionLimitError: there are as many sessions as there may be, and none of them is idle.
            RuntimeError: the manager was shut down.
            Exception: whatever the factory raises.
        """
        async with self._locked(session_id) as session:
            return await self._backend(session)

    @asynccontextmanager
    async def use(self, session_id: str) -> AsyncGenerator[WorkspaceBackend, None]:
        """The session's backend, which is not released before the block ends. Blocks may overlap.

        Raises:
            ValueError, SessionLimitError, RuntimeError, Exception: as `get_or_create`.
        """
        async with self._locked(session_id) as session:
            backend = await self._backend(session)
            session.users += 1
        try:
            yield backend
        finally:
            session.users -= 1
            session.last_used = self._clock()
            if self._unused is not None and not self._used():
                self._unused.set()

    async def release(self, session_id: str) -> bool:
        """Dispose of the session's backend. Its directory stays.

        Returns:
            Whether the session had a backend.

        Raises:
            SessionInUseError: it is in a `use` block.
            Exception: what disposing of it raised; the session is still there then.
        """
        async with self._locked(session_id) as session:
            if session.users:
                raise SessionInUseError(f"the session {session_id!r} is in use: release it when its run is over")
            return await self._dispose(session)

    async def cleanup_idle(self) -> int:
        """Release every session that nobody uses and that was idle for `idle_timeout` seconds.

        One that cannot be disposed of is logged, stays, and is tried again in the next round.

        Returns:
            How many were released.
        """
        released = 0
        for session_id in self.session_ids:
            async with self._locked(session_id) as session:
                # Only now: it may have been used while this waited for the others.
                if session.users or self._clock() - session.last_used < self._idle_timeout:
                    continue
                released += await self._tried(session)
        return released

    # -- the manager ---------------------------------------------------------------------------------------------

    async def shutdown(self, grace: float = GRACE_SECONDS) -> int:
        """Accept nothing more, wait for the sessions in use, and dispose of all.

        Args:
            grace: seconds to wait for sessions in use; after them they are disposed of all the same, and what still
                runs in them fails.

        Returns:
            How many sessions were released.
        """
        self._closed = True
        if self._loop is not None:
            self._loop.cancel()
        self._unused = self._unused or anyio.Event()
        if self._used():
            with anyio.move_on_after(grace):
                await self._unused.wait()
        released = 0
        # A creation that was under way holds its lock: the session is disposed of after it.
        for session_id in list(self._sessions):
            async with self._locked(session_id) as session:
                released += await self._tried(session)
        return released

    async def __aenter__(self) -> SessionManager:
        if self._closed or self._tasks is not None:
            raise RuntimeError("a session manager is entered once; make a new one")
        self._tasks = await anyio.create_task_group().__aenter__()
        self._loop = anyio.CancelScope()
        self._tasks.start_soon(self._clean_up, self._loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None  # noqa: S101 - set by __aenter__
        # Shielded: a server that is told to stop is often cancelled, and its containers would stay.
        with anyio.CancelScope(shield=True):
            await self.shutdown()
        # Without the error of the block, which the group would wrap in a group of its own.
        await self._tasks.__aexit__(None, None, None)

    async def _clean_up(self, loop: anyio.CancelScope) -> None:
        with loop:
            while True:
                await anyio.sleep(self._cleanup_interval)
                await self.cleanup_idle()

    # -- steps ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _locked(self, session_id: str) -> AsyncGenerator[_Session, None]:
        """The session's entry, nobody else changing it; forgotten afterwards if it holds nothing."""
        session = self._sessions.get(session_id)
        if session is None:
            session = _Session(self._place(session_id))
            self._sessions[session_id] = session
        session.waiting += 1
        try:
            async with session.lock:
                yield session
        finally:
            session.waiting -= 1
            if session.backend is None and not session.waiting:
                del self._sessions[session_id]

    def _place(self, session_id: str) -> SessionPlace:
        name = session_directory_name(session_id)
        return SessionPlace(session_id, name, None if self._root is None else self._root / name)

    async def _backend(self, session: _Session) -> WorkspaceBackend:
        if self._closed:
            raise RuntimeError("the session manager was shut down")
        if session.backend is None:
            session.backend = await self._make(session)
        session.last_used = self._clock()
        return session.backend

    async def _make(self, session: _Session) -> WorkspaceBackend:
        if self._full():
            await self._make_room()
        # No await between the check and the count: two that are made at once cannot both be the last.
        if self._max_sessions is not None and self._full():
            raise SessionLimitError(self._max_sessions)
        self._making += 1
        try:
            with _directory(session.place.root):
                made = self._factory(session.place)
                return _checked(await made if inspect.isawaitable(made) else made)
        finally:
            self._making -= 1

    def _full(self) -> bool:
        return self._max_sessions is not None and len(self.session_ids) + self._making >= self._max_sessions

    async def _make_room(self) -> None:
        """Release what is idle already, before somebody is refused because the loop has not come round yet."""
        for session_id in self.session_ids:
            session = self._sessions.get(session_id)
            # None: released by another while this waited for the one before. A lock that is held is a session that is
            # being used: nothing to wait for while holding one's own.
            if session is None or session.users or session.waiting:
                continue
            if self._clock() - session.last_used >= self._idle_timeout:
                async with self._locked(session_id):
                    await self._tried(session)

    def _used(self) -> bool:
        return any(session.users for session in self._sessions.values())

    async def _tried(self, session: _Session) -> bool:
        try:
            return await self._dispose(session)
        except Exception:
            logger.exception("the session %r could not be released", session.place.session_id)
            return False

    async def _dispose(self, session: _Session) -> bool:
        backend = session.backend
        if backend is None:
            return False
        if isinstance(backend, SupportsDispose):
            await backend.dispose()
        session.backend = None
        if self._on_release is not None:
            self._on_release(session.place.session_id)
        return True


def _checked(backend: object) -> WorkspaceBackend:
    if not isinstance(backend, WorkspaceBackend):
        raise TypeError(f"the sessions' factory returned {type(backend).__name__}, not a WorkspaceBackend")
    return backend


@contextmanager
def _directory(path: Path | None) -> Generator[None, None, None]:
    """The session's directory, made if it is not there yet; unmade if what is done with it fails."""
    if path is None:
        yield
        return
    new = not path.exists()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        if new:
            shutil.rmtree(path)
        raise
