"""One workspace per session, from any factory: created on first use, kept while in use, released when idle."""

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
    """The maximum number of sessions exists; try again later.

    Attributes:
        limit: that number.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        super().__init__(f"all {limit} sessions are in use: release one, or try again later")


class SessionInUseError(RuntimeError):
    """The session to release is in use."""


@dataclass(frozen=True)
class SessionPlace:
    """The session that a factory makes a backend for.

    Attributes:
        session_id: the application's id: any text, possibly a user's.
        name: a safe name for a file, a directory or a container; unique to the id.
        root: the session's directory, which exists; None if the manager has no root.
    """

    session_id: str
    name: str
    root: Path | None = None


SessionFactory: TypeAlias = Callable[[SessionPlace], WorkspaceBackend | Awaitable[WorkspaceBackend]]
"""Create one session's backend; may be async."""


@runtime_checkable
class SupportsDispose(Protocol):
    """A backend that holds a resource of the machine, such as a container, until it is disposed of."""

    async def dispose(self) -> None:
        """Release the backend's resources. Doing it twice is fine."""
        ...


def session_directory_name(session_id: str) -> str:
    """The name of a session's directory or container: safe on every file system, unique to the id.

    Raises:
        ValueError: the id is empty.
    """
    if not session_id:
        raise ValueError("a session id cannot be empty")
    return folder_name(session_id)


def docker_session(place: SessionPlace) -> WorkspaceBackend:
    """The manager's default factory: a container with the session's directory as `/workspace`.

    Without a root the files exist only in the container and are removed with it.
    """
    volumes = None if place.root is None else {str(place.root): "/workspace"}
    return docker_backend(volumes=volumes, container_name=f"deep-session-{place.name}")


@dataclass(eq=False)
class _Session:
    """One session id, from the first request until no task uses it and it holds nothing."""

    place: SessionPlace
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0
    """Tasks that hold or wait for the lock: the entry must not be replaced meanwhile."""
    users: int = 0
    backend: WorkspaceBackend | None = None
    last_used: float = 0.0


class SessionManager:
    """One workspace per session: created on first use, kept while in use, released after a long idle time.

        async with SessionManager(lambda session: local_backend(session.root), root="/srv/sessions") as manager:
            async with manager.use("ann") as backend:
                await agent.run("…", deps=create_default_deps(backend=backend))

    Entering it starts the cleanup loop, leaving it is `shutdown()`. Without `async with` only
    `cleanup_idle()` cleans up. For one event loop, asyncio's or trio's.

    Releasing a session disposes of its backend (`SupportsDispose`: docker's removes the container). Its directory
    below `root` stays and is used again if the session returns.

    Args:
        factory: creates one session's backend; by default a docker container (`docker_session`).
        root: the parent of the sessions' directories, created with mode 0700. None: sessions have no directory.
        max_sessions: maximum number of sessions with a backend; None means no limit.
        idle_timeout: seconds without use after which a session is released.
        cleanup_interval: seconds between two rounds of the cleanup loop.
        clock: returns the time in seconds.
        on_release: called with the id of each session after its release.
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

    # -- a session -----------------------------------------------------------------------------------------------------

    @property
    def session_ids(self) -> tuple[str, ...]:
        """The sessions that have a backend now."""
        return tuple(id for id, session in self._sessions.items() if session.backend is not None)

    def in_use(self, session_id: str) -> bool:
        """Whether the session is in a `use` block."""
        session = self._sessions.get(session_id)
        return session is not None and session.users > 0

    async def get_or_create(self, session_id: str) -> WorkspaceBackend:
        """Return the session's backend. Concurrent calls create it once; if that fails, the next call tries again.

        It counts as used now, and may be released after the idle time: for longer work use
        `use`.

        Raises:
            ValueError: the id is empty.
            SessionLimitError: the maximum number of sessions is in use.
            RuntimeError: the manager was shut down.
            Exception: any error of the factory.
        """
        async with self._lock(session_id) as session:
            return await self._backend(session)

    @asynccontextmanager
    async def use(self, session_id: str) -> AsyncGenerator[WorkspaceBackend, None]:
        """Yield the session's backend, which is not released before the block ends. Blocks may overlap.

        Raises:
            ValueError, SessionLimitError, RuntimeError, Exception: as `get_or_create`.
        """
        async with self._lock(session_id) as session:
            backend = await self._backend(session)
            session.users += 1
        try:
            yield backend
        finally:
            session.users -= 1
            session.last_used = self._clock()
            if self._unused is not None and not self._any_in_use():
                self._unused.set()

    async def release(self, session_id: str) -> bool:
        """Dispose of the session's backend. Its directory stays.

        Returns:
            Whether the session had a backend.

        Raises:
            SessionInUseError: it is in a `use` block.
            Exception: from disposing of it; the session then still exists.
        """
        async with self._lock(session_id) as session:
            if session.users:
                raise SessionInUseError(f"the session {session_id!r} is in use: release it after its run")
            return await self._dispose(session)

    async def cleanup_idle(self) -> int:
        """Release every session that is not in use and was idle for `idle_timeout` seconds.

        One that cannot be disposed of is logged, kept, and tried again in the next round.

        Returns:
            The number of released sessions.
        """
        released = 0
        for session_id in self.session_ids:
            async with self._lock(session_id) as session:
                # Check again: it may have been used while this waited for the others.
                if session.users or self._clock() - session.last_used < self._idle_timeout:
                    continue
                released += await self._try_dispose(session)
        return released

    # -- the manager ---------------------------------------------------------------------------------------------------

    async def shutdown(self, grace: float = GRACE_SECONDS) -> int:
        """Accept no more sessions, wait for those in use, and dispose of all.

        Args:
            grace: seconds to wait for sessions in use; then they are disposed of anyway, and work in them
                fails.

        Returns:
            The number of released sessions.
        """
        self._closed = True
        if self._loop is not None:
            self._loop.cancel()
        self._unused = self._unused or anyio.Event()
        if self._any_in_use():
            with anyio.move_on_after(grace):
                await self._unused.wait()
        released = 0
        # A creation in progress holds its lock: the session is disposed of after it.
        for session_id in list(self._sessions):
            async with self._lock(session_id) as session:
                released += await self._try_dispose(session)
        return released

    async def __aenter__(self) -> SessionManager:
        if self._closed or self._tasks is not None:
            raise RuntimeError("a session manager can be entered once; create a new one")
        self._tasks = await anyio.create_task_group().__aenter__()
        self._loop = anyio.CancelScope()
        self._tasks.start_soon(self._clean_up, self._loop)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None  # noqa: S101 - set by __aenter__
        # Shielded: a stopping server is often cancelled, and its containers would remain.
        with anyio.CancelScope(shield=True):
            await self.shutdown()
        # Without the block's error, which the group would wrap in another group.
        await self._tasks.__aexit__(None, None, None)

    async def _clean_up(self, loop: anyio.CancelScope) -> None:
        with loop:
            while True:
                await anyio.sleep(self._cleanup_interval)
                await self.cleanup_idle()

    # -- steps ---------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _lock(self, session_id: str) -> AsyncGenerator[_Session, None]:
        """Lock the session's entry; forget it afterwards if it holds nothing."""
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
        # No await between the check and the count: two concurrent creations cannot both be the last.
        if self._max_sessions is not None and self._full():
            raise SessionLimitError(self._max_sessions)
        self._making += 1
        try:
            with _directory(session.place.root):
                made = self._factory(session.place)
                return _check_backend(await made if inspect.isawaitable(made) else made)
        finally:
            self._making -= 1

    def _full(self) -> bool:
        return self._max_sessions is not None and len(self.session_ids) + self._making >= self._max_sessions

    async def _make_room(self) -> None:
        """Release idle sessions before a new one is rejected."""
        for session_id in self.session_ids:
            session = self._sessions.get(session_id)
            # None: released by another task meanwhile. A held lock means that the session is
            # in use: do not wait for it while holding another lock.
            if session is None or session.users or session.waiting:
                continue
            if self._clock() - session.last_used >= self._idle_timeout:
                async with self._lock(session_id):
                    await self._try_dispose(session)

    def _any_in_use(self) -> bool:
        return any(session.users for session in self._sessions.values())

    async def _try_dispose(self, session: _Session) -> bool:
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


def _check_backend(backend: object) -> WorkspaceBackend:
    if not isinstance(backend, WorkspaceBackend):
        raise TypeError(f"the sessions' factory returned {type(backend).__name__}, not a WorkspaceBackend")
    return backend


@contextmanager
def _directory(path: Path | None) -> Generator[None, None, None]:
    """The session's directory, created if missing; removed again if the block fails."""
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
