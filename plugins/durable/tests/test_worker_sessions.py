"""Several `deep worker` processes on PostgreSQL with real sessions, killed and stopped while they work."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from itertools import pairwise
from pathlib import Path

import psycopg
import pytest
from deep_durable import Job, Queue, open_queue
from deep_sessions import Commit, Entry, SessionStore, open_store
from deep_sessions.entries import encode

from plugins.durable.tests.crew import finished, until
from tests.drawn import many

pytestmark = [pytest.mark.needs("PostgreSQL"), pytest.mark.exhaustive]
LEASE, BETWEEN = 30, 2
"""Seconds: of a lease, and between two kills."""
PLUGIN = Path(__file__).with_name("long_work.py")


class Place:
    """A store with its queue, and `deep worker` processes.

    Args:
        url: of the store.
        folder: where the effects are counted.
        words: more words of the command.
    """

    def __init__(self, url: str, folder: Path, *words: str) -> None:
        self.url, self.folder = url, folder
        command = ["worker", "--store", url, "--backend", "memory", "-p", str(PLUGIN), *words]
        self._command = [sys.executable, "-m", "deep_cli", *command]
        self.workers: list[subprocess.Popen[bytes]] = []
        (folder / "payments").mkdir()
        with psycopg.connect(url) as connection:
            connection.execute("create table bookings (session text, n int)")

    def start(self) -> subprocess.Popen[bytes]:
        """Start one more worker."""
        environment = {**os.environ, "FOLDER": str(self.folder)}
        with (self.folder / "log").open("ab") as log:
            worker = subprocess.Popen(self._command, env=environment, stdout=log, stderr=log)
        self.workers.append(worker)
        return worker

    @contextmanager
    def running(self, count: int) -> Generator[list[subprocess.Popen[bytes]]]:
        """Start workers; kill all of them at the end."""
        try:
            yield [self.start() for _ in range(count)]
        finally:
            for worker in self.workers:
                worker.kill()
                worker.wait()

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[tuple[SessionStore, Queue]]:
        """Open both."""
        store, queue = open_store(self.url), open_queue(self.url)
        try:
            yield store, queue
        finally:
            await queue.aclose()
            await store.aclose()

    def lines(self, name: str) -> list[str]:
        """Return what the tools wrote into a file."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def paid(self) -> list[tuple[str, int]]:
        """Return the payments."""
        names = [path.name.split() for path in (self.folder / "payments").iterdir()]
        return [(session, int(n)) for session, n, _ in names]

    def booked(self) -> list[tuple[str, int]]:
        """Return the bookings."""
        with psycopg.connect(self.url) as connection:
            return connection.execute("select session, n from bookings").fetchall()

    def put(self) -> list[tuple[str, int]]:
        """Return the executions of the tool that nothing protects."""
        return [(session, int(n)) for session, n in map(str.split, self.lines("puts"))]


async def begin(store: SessionStore, session_id: str, prompt: str = "go") -> None:
    """Leave a session whose run has begun, and whose process then died."""
    lease = await store.acquire(session_id)
    started = encode("run_started", {"digest": "", "attempt": 1, "prompt": prompt}, "r1")
    await store.commit(lease, Commit([started], status="running"))
    await store.release(lease)


def waits(entries: list[Entry]) -> list[tuple[float, float]]:
    """Return from when to when the session stood still before each attempt that followed a worker's."""
    pairs = pairwise(entries)
    return [(before.at, entry.at) for before, entry in pairs if entry.kind == "run_started" and before.seq > 1]


def test_many_sessions_complete_while_workers_are_killed(postgresql_store: str, tmp_path: Path) -> None:
    count, steps, crew = many(16, 200), many(10, 20), many(2, 4)
    sessions = [f"s{number}" for number in range(count)]
    place = Place(postgresql_store, tmp_path, "--model", f"long:{steps}")
    kills: list[float] = []

    async def working(queue: Queue) -> list[subprocess.Popen[bytes]]:
        """The workers that have started: on a slow machine, most others would die before they did anything."""
        numbers = [int(worker.name.rpartition(":")[2]) for worker in await queue.workers()]
        return [worker for worker in place.workers if worker.poll() is None and worker.pid in numbers]

    async def kill(queue: Queue) -> None:
        draw = random.Random(13)
        while len(kills) < many(4, 1000):
            done = len(place.lines("puts"))
            await asyncio.sleep(many(0, BETWEEN))
            await until(lambda done=done: len(place.lines("puts")) > done)
            while len(found := await working(queue)) < min(crew, 3):
                await asyncio.sleep(0.1)
            victim = draw.choice(found)
            victim.kill()
            victim.wait()
            kills.append(time.time())
            place.start()

    async def main() -> tuple[list[Job], dict[str, list[Entry]], set[str]]:
        async with place.opened() as (store, queue):
            for name in sessions:
                await begin(store, name)
                await queue.enqueue(name)
            with place.running(crew):
                killer = asyncio.ensure_future(kill(queue))
                left = await finished(queue, seconds=count * 60)
                killer.cancel()
            journals = {name: [*await store.entries(name, limit=10_000)] for name in sessions}
            return left, journals, {(await store.info(name)).status for name in sessions}

    left, journals, states = asyncio.run(main())
    assert left == []
    assert states == {"idle"}
    assert {entries[-1].kind for entries in journals.values()} == {"run_ended"}
    wanted = {name: [(s, n) for s in sessions for n in range(steps) if n % 3 in at] for name, at in PLACES.items()}
    assert sorted(place.paid()) == sorted(wanted["pay"])
    assert sorted(place.booked()) == sorted(wanted["book"])
    twice = [effect for effect, times in Counter(place.put()).items() if times > 1]
    assert twice == []
    missing = set(wanted["put"]) - {*place.put()}
    stood = [wait for entries in journals.values() for wait in waits(entries)]
    longest = max((end - begin for begin, end in stood), default=0.0)  # a few kills may all come between two sessions
    print(f"{len(kills)} kills, {len(stood)} attempts after one, {len(missing)} unknown, longest wait {longest:.1f} s")
    assert kills  # how many there are depends on the speed of the machine
    assert max((sum(begin < at < end for at in kills) for begin, end in stood), default=0) <= (LEASE + 5) / BETWEEN


PLACES = {"put": (0, 2), "pay": (0, 1), "book": (1, 2)}
"""Tool -> the steps, modulo 3, in which the model calls it."""


def test_a_stopped_worker_loses_its_session_and_cannot_write(postgresql_store: str, tmp_path: Path) -> None:
    place = Place(postgresql_store, tmp_path, "--model", "long:4", "--lease", "9")

    async def main() -> None:
        async with place.opened() as (store, queue):
            await begin(store, "one", "hold")
            await queue.enqueue("one")
            with place.running(1) as (stopped,):
                await until(lambda: place.lines("holds") == ["one 1"])
                stopped.send_signal(signal.SIGSTOP)
                successor = place.start()

                async def is_idle() -> bool:
                    return (await store.info("one")).status == "idle"

                await until(is_idle)
                written = await store.entries("one")
                (tmp_path / "gate").touch()
                stopped.send_signal(signal.SIGCONT)
                await until(lambda: place.lines("held") == ["one 1"])
                successor.kill()
                successor.wait()
                await begin(store, "two")
                await queue.enqueue("two")
                assert await finished(queue) == []  # the stopped one works again
                assert (await store.info("two")).status == "idle"
                assert await store.entries("one") == written

    asyncio.run(main())
    assert place.lines("holds") == ["one 1"]
    assert sorted(place.put()) == [("one", 0), ("one", 2), ("one", 3), ("two", 0), ("two", 2), ("two", 3)]
    assert "LeaseLost" not in (tmp_path / "log").read_text()  # no failure: another worker has the session


def test_a_session_that_kills_three_times_alone_is_set_aside_and_shown(postgresql_store: str, tmp_path: Path) -> None:
    place = Place(postgresql_store, tmp_path, "--model", "long:4", "--lease", "9")

    async def main() -> list[Job]:
        async with place.opened() as (store, queue):
            await begin(store, "poison", "crash")
            await queue.enqueue("poison")
            with place.running(1) as (first,):
                await until(lambda: first.poll() is not None)
                assert place.lines("crashes") == ["poison 1"]
                await begin(store, "healthy")
                await queue.enqueue("healthy")
                second = place.start()
                aside = await finished(queue)
                assert second.poll() is None
                return aside

    (aside,) = asyncio.run(main())
    assert (aside.session_id, aside.state, aside.failures) == ("poison", "set aside", 3)
    command = [sys.executable, "-m", "deep_cli", "workers", "--store", postgresql_store]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "poison is set aside after 3 failures, the last one: its process was killed by SIGKILL" in shown
    assert {session for session, _ in place.put()} == {"poison", "healthy"}
    assert place.lines("crashes") == ["poison 1"] * 4  # in company, and three times alone
