"""The session manager: one workspace a session, never two, never one too many, never taken from who works in it."""

from __future__ import annotations

import logging
import math
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from deep_backends import (
    LocalBackend,
    SessionInUseError,
    SessionLimitError,
    SessionManager,
    SessionPlace,
    docker_backend,
    local_backend,
    memory_backend,
    session_directory_name,
)
from deep_backends.memory import MemoryBackend
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai.workspaces import Workspace, WorkspaceBackend

from deep_core import MissingExtra

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return request.param


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Held(MemoryBackend):
    """A memory backend that must be given back; `blocked` keeps a disposal waiting, `broken` fails it."""

    def __init__(self, place: SessionPlace, shop: Shop) -> None:
        super().__init__()
        self.place = place
        self.shop = shop

    async def dispose(self) -> None:
        if self.shop.broken:
            raise ConnectionError("the engine is away")
        if self.shop.gate is not None:
            await self.shop.gate.wait()
        self.shop.disposed.append(self.place.session_id)


class Shop:
    """A factory that keeps count. `gate` holds creations and disposals back, `broken` fails them."""

    def __init__(self) -> None:
        self.made: list[str] = []
        self.disposed: list[str] = []
        self.gate: anyio.Event | None = None
        self.broken = False

    async def __call__(self, place: SessionPlace) -> WorkspaceBackend:
        if self.gate is not None:
            await self.gate.wait()
        if self.broken:
            raise ConnectionError("the engine is away")
        self.made.append(place.session_id)
        return Held(place, self)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def settled(condition: Callable[[], bool]) -> None:
    """Let the other tasks go on until this is so; a test that never gets there is stopped by the time limit."""
    with anyio.fail_after(30):
        while not condition():
            await anyio.lowlevel.checkpoint()


# -- making ----------------------------------------------------------------------------------------------------------


async def test_a_session_gets_one_backend_and_each_its_own(shop: Shop) -> None:
    manager = SessionManager(shop)
    ann, ben = await manager.get_or_create("ann"), await manager.get_or_create("ben")
    assert await manager.get_or_create("ann") is ann
    assert ann is not ben
    assert shop.made == ["ann", "ben"]
    assert sorted(manager.session_ids) == ["ann", "ben"]


async def test_a_hundred_at_once_make_exactly_one_for_each_id(shop: Shop) -> None:
    manager = SessionManager(shop)
    shop.gate = anyio.Event()
    found: dict[str, set[WorkspaceBackend]] = {"ann": set(), "ben": set()}

    async def ask(session_id: str) -> None:
        found[session_id].add(await manager.get_or_create(session_id))

    async with anyio.create_task_group() as tasks:
        for _ in range(50):
            tasks.start_soon(ask, "ann")
            tasks.start_soon(ask, "ben")
        await anyio.wait_all_tasks_blocked()
        assert manager.session_ids == ()
        shop.gate.set()
    assert sorted(shop.made) == ["ann", "ben"]
    assert {len(backends) for backends in found.values()} == {1}
    assert found["ann"] != found["ben"]


@pytest.mark.parametrize("kind", ["memory", "local"])
async def test_what_one_session_writes_no_other_sees(tmp_path: Path, kind: str) -> None:
    def make(place: SessionPlace) -> WorkspaceBackend:
        return memory_backend() if kind == "memory" else local_backend(place.root or "")

    manager = SessionManager(make, root=None if kind == "memory" else tmp_path)

    async def work(session_id: str) -> None:
        for _ in range(3):
            async with manager.use(session_id) as backend:
                await Workspace(backend).write_text("canary.txt", session_id)
                await anyio.lowlevel.checkpoint()
                assert await Workspace(backend).read_text("canary.txt") == session_id

    async with anyio.create_task_group() as tasks:
        for number in range(40):
            tasks.start_soon(work, f"canary-{number}")
    assert len(manager.session_ids) == 40


async def test_a_failed_creation_leaves_nothing_and_the_next_one_tries_anew(tmp_path: Path, shop: Shop) -> None:
    manager = SessionManager(shop, root=tmp_path, max_sessions=1)
    shop.broken = True
    with pytest.raises(ConnectionError, match="the engine is away"):
        await manager.get_or_create("ann")
    assert manager.session_ids == ()
    assert list(tmp_path.iterdir()) == []
    assert await manager.release("ann") is False
    shop.broken = False
    async with manager.use("ann"):  # the one place that there is was not used up by the failure
        assert [path.name for path in tmp_path.iterdir()] == ["ann"]


async def test_a_failed_creation_does_not_touch_a_directory_that_was_there(tmp_path: Path, shop: Shop) -> None:
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "kept.txt").write_text("from last week")
    shop.broken = True
    with pytest.raises(ConnectionError):
        await SessionManager(shop, root=tmp_path).get_or_create("ann")
    assert (tmp_path / "ann" / "kept.txt").read_text() == "from last week"


async def test_of_those_who_wait_each_tries_when_the_one_before_failed(shop: Shop) -> None:
    manager = SessionManager(shop)
    shop.gate, shop.broken = anyio.Event(), True
    outcomes: list[str] = []

    async def ask() -> None:
        try:
            await manager.get_or_create("ann")
        except ConnectionError:
            outcomes.append("failed")
            shop.broken = False
        else:
            outcomes.append("made")

    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        shop.gate.set()
    assert outcomes == ["failed", "made", "made", "made"]
    assert shop.made == ["ann"]


async def test_a_cancelled_creation_leaves_nothing_to_the_others(tmp_path: Path, shop: Shop) -> None:
    manager = SessionManager(shop, root=tmp_path)
    shop.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.get_or_create, "ann")
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    assert manager.session_ids == ()
    assert list(tmp_path.iterdir()) == []
    shop.gate.set()
    await manager.get_or_create("ann")
    assert shop.made == ["ann"]


async def test_a_factory_that_makes_no_backend_is_named(tmp_path: Path) -> None:
    manager = SessionManager(lambda place: str(place.root), root=tmp_path)  # pyright: ignore
    with pytest.raises(TypeError, match="returned str, not a WorkspaceBackend"):
        await manager.get_or_create("ann")
    assert list(tmp_path.iterdir()) == []


# -- limits ----------------------------------------------------------------------------------------------------------


async def test_the_number_is_limited_also_among_those_on_their_way(shop: Shop) -> None:
    manager = SessionManager(shop, max_sessions=3)
    shop.gate = anyio.Event()
    refused: list[int] = []

    async def ask(number: int) -> None:
        try:
            await manager.get_or_create(f"s{number}")
        except SessionLimitError as error:
            refused.append(error.limit)

    async with anyio.create_task_group() as tasks:
        for number in range(10):
            tasks.start_soon(ask, number)
        await anyio.wait_all_tasks_blocked()
        shop.gate.set()
    assert refused == [3] * 7
    assert len(manager.session_ids) == len(shop.made) == 3
    assert await manager.get_or_create(shop.made[0])  # those that are there go on
    assert await manager.release(shop.made[0])
    await manager.get_or_create("s99")


async def test_a_full_house_lets_go_of_who_is_idle_before_it_refuses(shop: Shop, clock: Clock) -> None:
    manager = SessionManager(shop, max_sessions=2, idle_timeout=10, clock=clock)
    await manager.get_or_create("old")
    async with manager.use("busy"):
        clock.now += 10
        await manager.get_or_create("new")
        assert shop.disposed == ["old"]
        with pytest.raises(SessionLimitError, match=r"all 2 sessions.*try again later"):
            await manager.get_or_create("one too many")
    assert sorted(manager.session_ids) == ["busy", "new"]


async def test_making_room_does_not_mind_who_goes_meanwhile(shop: Shop, clock: Clock) -> None:
    manager = SessionManager(shop, max_sessions=2, idle_timeout=10, clock=clock)
    for session_id in ("first", "second"):
        await manager.get_or_create(session_id)
    clock.now += 10
    gate = shop.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.get_or_create, "new")
        await anyio.wait_all_tasks_blocked()  # the first one is being disposed of
        shop.gate = None
        assert await manager.release("second")
        gate.set()
    assert manager.session_ids == ("new",)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"max_sessions": 0}, "at least 1"), ({"idle_timeout": 0}, "more than 0"), ({"cleanup_interval": -1}, "more")],
)
async def test_settings_that_mean_nothing_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SessionManager(**settings)


# -- letting go ------------------------------------------------------------------------------------------------------


async def test_what_is_idle_is_released_and_what_was_used_since_is_not(shop: Shop, clock: Clock) -> None:
    told: list[str] = []
    manager = SessionManager(shop, idle_timeout=60, clock=clock, on_release=told.append)
    for session_id in ("ann", "ben", "cem"):
        await manager.get_or_create(session_id)
    clock.now += 30
    await manager.get_or_create("ben")
    async with manager.use("cem"):
        pass
    clock.now += 30
    assert await manager.cleanup_idle() == 1
    assert shop.disposed == told == ["ann"]
    clock.now += 29.9
    assert await manager.cleanup_idle() == 0
    clock.now += 0.1
    assert await manager.cleanup_idle() == 2
    assert manager.session_ids == ()


async def test_a_session_in_use_is_never_cleaned_however_long_it_takes(shop: Shop, clock: Clock) -> None:
    manager = SessionManager(shop, idle_timeout=1, clock=clock)
    async with manager.use("ann") as first:
        clock.now += 10_000
        async with manager.use("ann") as second:
            assert first is second
            assert await manager.cleanup_idle() == 0
        assert await manager.cleanup_idle() == 0
        assert manager.in_use("ann")
        with pytest.raises(SessionInUseError, match="'ann' is in use"):
            await manager.release("ann")
    assert not manager.in_use("ann")
    assert await manager.cleanup_idle() == 0  # idle from the end of the use, not from its beginning
    clock.now += 1
    assert await manager.cleanup_idle() == 1


async def test_a_run_that_fails_still_ends_its_use(shop: Shop) -> None:
    manager = SessionManager(shop)
    with pytest.raises(ZeroDivisionError):
        async with manager.use("ann"):
            raise ZeroDivisionError
    assert not manager.in_use("ann")
    assert await manager.release("ann") is True
    assert await manager.release("ann") is False


async def test_whoever_comes_while_a_session_is_released_gets_a_new_one(shop: Shop) -> None:
    manager = SessionManager(shop)
    old = await manager.get_or_create("ann")
    shop.gate = anyio.Event()
    found: list[WorkspaceBackend] = []

    async def ask() -> None:
        found.append(await manager.get_or_create("ann"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.release, "ann")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        assert found == []
        shop.gate.set()
    assert shop.made == ["ann", "ann"]
    assert found[0] is not old


async def test_what_cannot_be_disposed_of_is_logged_kept_and_tried_again(
    shop: Shop, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    manager = SessionManager(shop, idle_timeout=1, clock=clock)
    for session_id in ("ann", "ben"):
        await manager.get_or_create(session_id)
    shop.broken = True
    clock.now += 1
    with caplog.at_level(logging.ERROR, "deep_backends"):
        assert await manager.cleanup_idle() == 0
    assert [record.getMessage() for record in caplog.records] == [
        f"the session {name!r} could not be released" for name in ("ann", "ben")
    ]
    with pytest.raises(ConnectionError):
        await manager.release("ann")
    assert sorted(manager.session_ids) == ["ann", "ben"]
    shop.broken = False
    assert await manager.cleanup_idle() == 2


async def test_the_loop_cleans_up_and_ends_with_the_block(shop: Shop, clock: Clock) -> None:
    gone = anyio.Event()
    manager = SessionManager(
        shop, idle_timeout=5, cleanup_interval=0.001, clock=clock, on_release=lambda session_id: gone.set()
    )
    async with manager:
        await manager.get_or_create("ann")
        clock.now += 5
        with anyio.fail_after(30):
            await gone.wait()
        await manager.get_or_create("ben")
    assert shop.disposed == ["ann", "ben"]
    with pytest.raises(RuntimeError, match="was shut down"):
        await manager.get_or_create("ann")
    with pytest.raises(RuntimeError, match="entered once"):
        await manager.__aenter__()


async def test_a_loop_with_an_interval_without_end_does_not_hold_the_block(shop: Shop) -> None:
    with anyio.fail_after(30):
        async with SessionManager(shop, cleanup_interval=math.inf) as manager:
            await manager.get_or_create("ann")
    assert shop.disposed == ["ann"]


async def fail_in_the_block(shop: Shop) -> None:
    async with SessionManager(shop) as manager:
        await manager.get_or_create("ann")
        raise ZeroDivisionError


async def test_an_error_or_a_cancellation_in_the_block_still_gives_everything_back(shop: Shop) -> None:
    with pytest.raises(ZeroDivisionError):
        await fail_in_the_block(shop)
    with anyio.CancelScope() as scope:
        async with SessionManager(shop) as manager:
            await manager.get_or_create("ben")
            scope.cancel()
            await anyio.sleep_forever()
    assert shop.disposed == ["ann", "ben"]


async def test_shutdown_waits_for_who_is_working_and_refuses_new_work(shop: Shop) -> None:
    manager = SessionManager(shop)
    entered, finish = anyio.Event(), anyio.Event()
    released: list[int] = []

    async def work() -> None:
        async with manager.use("ann") as backend:
            entered.set()
            await finish.wait()
            await Workspace(backend).write_text("done.txt", "in time")
            assert shop.disposed == []

    async def stop() -> None:
        released.append(await manager.shutdown(grace=math.inf))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await entered.wait()
        tasks.start_soon(stop)
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(RuntimeError, match="was shut down"):
            await manager.get_or_create("ann")
        assert (shop.disposed, released) == ([], [])
        finish.set()
    assert (shop.disposed, released) == (["ann"], [1])


async def test_after_the_grace_a_session_in_use_is_disposed_of_all_the_same(shop: Shop) -> None:
    manager = SessionManager(shop)
    async with manager.use("ann"):
        assert await manager.shutdown(grace=0) == 1
        assert shop.disposed == ["ann"]
    assert await manager.shutdown() == 0


async def test_shutdown_catches_what_is_just_being_made(shop: Shop) -> None:
    manager = SessionManager(shop)
    shop.gate = anyio.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.get_or_create, "ann")
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(manager.shutdown)
        await anyio.wait_all_tasks_blocked()
        shop.gate.set()
    assert (shop.made, shop.disposed, manager.session_ids) == (["ann"], ["ann"], ())


# -- directories -----------------------------------------------------------------------------------------------------


async def test_a_released_session_finds_its_files_again(tmp_path: Path) -> None:
    for text in ("first", "second"):
        manager = SessionManager(lambda place: local_backend(place.root or ""), root=tmp_path / "sessions")
        async with manager, manager.use("ann") as backend:
            assert isinstance(backend, LocalBackend)
            workspace = Workspace(backend)
            assert await workspace.exists("notes.txt") is (text == "second")
            await workspace.write_text("notes.txt", text)
    place = tmp_path / "sessions" / "ann"
    assert (place / "notes.txt").read_text() == "second"
    assert stat.S_IMODE(place.stat().st_mode) == 0o700


HOSTILE = [
    "..",
    ".",
    "../ben",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "a\0b",
    "Ann",
    "ÄNN",
    "ann.",
    " ann",
    "用户",
    "\ud800",
    "-rf",
]
HOSTILE += ["-rf", "a" * 65, "a" * 10_000, "~root", "ann\n", "e\u0301", "\u00e9", "con:", "x.0123"]


@pytest.mark.parametrize("session_id", HOSTILE)
async def test_an_id_never_leads_out_of_the_root_nor_to_another(tmp_path: Path, session_id: str) -> None:
    root = tmp_path / "root"
    manager = SessionManager(lambda place: local_backend(place.root or ""), root=root)
    for each in (session_id, "ann", "ben"):
        async with manager.use(each) as backend:
            await Workspace(backend).write_text("canary.txt", ascii(each))
    assert sorted(path.read_text() for path in root.glob("*/canary.txt")) == sorted(
        ascii(each) for each in (session_id, "ann", "ben")
    )
    assert [path.name for path in tmp_path.iterdir()] == ["root"]


async def test_an_empty_id_is_refused(shop: Shop) -> None:
    with pytest.raises(ValueError, match="cannot be empty"):
        await SessionManager(shop).get_or_create("")


@given(st.text(min_size=1), st.text(min_size=1))
def test_names_are_portable_and_no_two_ids_share_one(one: str, other: str) -> None:
    name = session_directory_name(one)
    assert len(name) <= 80
    assert name.isascii()
    assert name == name.lower()
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert name[0].isalnum()
    assert (name == session_directory_name(other)) == (one == other)


# -- docker ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def docker_calls(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What the default factory asks of `docker_backend`."""
    calls: list[dict[str, Any]] = []

    def made(**settings: Any) -> WorkspaceBackend:
        calls.append(settings)
        return memory_backend()

    monkeypatch.setattr("deep_backends.sessions.docker_backend", made)
    return calls


async def test_by_default_each_session_is_a_container_on_its_own_directory(
    tmp_path: Path, docker_calls: list[dict[str, Any]]
) -> None:
    manager = SessionManager(root=tmp_path)
    await manager.get_or_create("ann")
    await manager.get_or_create("../ann")
    other = session_directory_name("../ann")
    assert docker_calls == [
        {"volumes": {str(tmp_path / name): "/workspace"}, "container_name": f"deep-session-{name}"}
        for name in ("ann", other)
    ]
    await SessionManager().get_or_create("ann")
    assert docker_calls[-1] == {"volumes": None, "container_name": "deep-session-ann"}


def test_a_runtime_brings_its_image_itself() -> None:
    with pytest.raises(ValueError, match="a runtime brings its own image"):
        docker_backend("python:3.13", runtime="python-minimal")
    with pytest.raises(ValueError, match="a runtime brings its own image"):
        docker_backend(runtime="python-minimal", work_dir="/job")


def test_runtimes_without_the_extra_name_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.startswith(("pydantic_ai_backends", "deep_backends.runtimes"))]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "pydantic_ai_backends", None)
    import deep_backends

    monkeypatch.delitem(vars(deep_backends), "get_runtime", raising=False)
    with pytest.raises(MissingExtra, match=r"pip install 'deep-backends\[docker\]'"):
        _ = deep_backends.get_runtime


@pytest.mark.needs("Docker")
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_a_container_goes_with_its_session_and_its_files_stay(tmp_path: Path) -> None:
    manager = SessionManager(root=tmp_path)
    for text in ("first", "second"):
        async with manager.use("ann") as backend:
            workspace = Workspace(backend)
            assert await workspace.exists("notes.txt") is (text == "second")
            await workspace.write_text("notes.txt", text)
        assert await manager.release("ann")
