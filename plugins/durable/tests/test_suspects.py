"""Sessions that kill their process: they are found out, and no other session pays for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from deep_durable import Job, Queue, enqueue, open_queue
from deep_sessions import open_store

from plugins.durable.tests.crew import finished, until
from plugins.durable.tests.deep_workers import Workers, lines
from tests.drawn import many

PLUGIN = Path(__file__).with_name("slow_work.py")


async def ended(store: str, names: Sequence[str]) -> list[str]:
    """Return the status of each session."""
    sessions = open_store(store)
    try:
        return [(await sessions.info(name)).status for name in names]
    finally:
        await sessions.aclose()


async def left(store: str, workers: Workers) -> list[Job]:
    """Wait until no session waits or runs, and start workers again that ended; return the sessions set aside."""
    queue = open_queue(store)

    async def is_over() -> bool:
        for process in [process for process in workers.processes[-1:] if process.poll() is not None]:
            assert process.returncode != 2, workers.log()
            workers.start()
        return all(job.state == "set aside" for job in await queue.jobs())

    try:
        await until(is_over)
        return [*await queue.jobs()]
    finally:
        await queue.aclose()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("poison", "error"),
    [
        ("kill", "its process was killed by SIGKILL"),
        pytest.param("kill_group", "its process was killed by SIGKILL", marks=pytest.mark.exhaustive),
        pytest.param("exit_at_once", "its process exited with 0", marks=pytest.mark.exhaustive),
        pytest.param("abort", "its process was killed by SIGABRT", marks=pytest.mark.exhaustive),
        pytest.param("hang", "its process did nothing for 6 s", marks=pytest.mark.exhaustive),
    ],
)
def test_only_the_session_that_kills_is_set_aside(poison: str, error: str, store: str, tmp_path: Path) -> None:
    async def main() -> tuple[list[Job], list[str]]:
        for name in ("one", "two"):
            await enqueue(store, name, "say it")
        await enqueue(store, "poison", poison)
        workers = Workers(store, tmp_path, "--model", "slow:1", "--lease", "6", "-p", PLUGIN)
        with workers.running():
            return await left(store, workers), await ended(store, ["one", "two"])

    (aside,), states = asyncio.run(main())
    assert (aside.session_id, aside.failures, aside.error) == ("poison", 3, error)
    assert states == ["idle", "idle"]
    assert lines(tmp_path, "killers") == [poison] * 4  # in company, and three times alone


@pytest.mark.slow
def test_a_system_exit_in_a_tool_ends_neither_its_run_nor_the_worker(store: str, tmp_path: Path) -> None:
    async def main() -> tuple[list[Job], list[str]]:
        for name, prompt in (("one", "say it"), ("poison", "leave")):
            await enqueue(store, name, prompt)
        workers = Workers(store, tmp_path, "--model", "slow:1", "-p", PLUGIN)
        with workers.running() as (worker,):
            aside = await left(store, workers)
            assert worker.poll() is None
            return aside, await ended(store, ["one", "poison"])

    assert asyncio.run(main()) == ([], ["idle", "idle"])  # the model reads that its tool failed


@pytest.mark.slow
def test_a_worker_that_is_killed_counts_against_no_session_and_a_suspect_goes_on(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        queue = open_queue(store)
        await enqueue(store, "one", "wait")
        workers = Workers(store, tmp_path, "--model", "slow:0", "-p", PLUGIN)
        with workers.running() as (first,):
            await until(lambda: lines(tmp_path, "waits") == ["wait"])
            first.kill()
            first.wait()
            second = workers.start()
            await until(lambda: lines(tmp_path, "waits") == ["wait"] * 2)
            (job,) = await queue.jobs()
            assert job.suspect
            alone = int((job.worker or "").rpartition(":")[2])
            assert alone != second.pid
            second.kill()
            second.wait()
            third = workers.start()
            await until(lambda: _works(queue, third.pid))
            (job,) = await queue.jobs()
            assert (job.state, job.failures) == ("running", 0)  # who was killed from outside is no evidence
            (tmp_path / "gate").touch()
            assert await finished(queue) == []
            assert lines(tmp_path, "waits") == ["wait"] * 2
            await until(lambda: _is_gone(alone))
        await queue.aclose()

    asyncio.run(main())


async def _works(queue: Queue, process: int) -> bool:
    return any(worker.name.endswith(f":{process}") for worker in await queue.workers())


def _is_gone(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.slow
@pytest.mark.exhaustive
def test_healthy_sessions_complete_beside_a_poison_while_workers_are_killed(store: str, tmp_path: Path) -> None:
    healthy = [f"s{number}" for number in range(many(8, 60))]
    crew, seconds, between = many(2, 4), many(1, 3), 2

    async def kill(workers: Workers, queue: Queue, over: asyncio.Event) -> int:
        """Kill one that has begun: on a busy machine, the others would die before they did anything."""
        kills = 0
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), between)
            names = {worker.name.rpartition(":")[2] for worker in await queue.workers()}
            begun = [process for process in workers.processes if str(process.pid) in names]
            if begun and not over.is_set():
                begun[0].kill()
                begun[0].wait()
                workers.processes.remove(begun[0])
                kills += 1
                workers.start()
        return kills

    async def main() -> tuple[list[Job], list[str], int]:
        for name in (*healthy[:5], "poison", *healthy[5:]):
            await enqueue(store, name, "kill" if name == "poison" else name)
        workers, over = Workers(store, tmp_path, "--model", f"slow:{seconds}", "-p", PLUGIN), asyncio.Event()
        queue = open_queue(store)
        began = time.monotonic()
        with workers.running(crew):
            killing = asyncio.ensure_future(kill(workers, queue, over))
            await until(lambda: _only_poison(queue))
            over.set()
            kills = await killing
            aside = await finished(queue)
        await queue.aclose()
        print(f"{len(healthy)} sessions, {kills} kills, {time.monotonic() - began:.0f} s")
        return aside, await ended(store, healthy), kills

    (aside,), states, kills = asyncio.run(main())
    assert set(states) == {"idle"}
    assert (aside.session_id, aside.failures) == ("poison", 3)
    assert aside.error == "its process was killed by SIGKILL"
    assert kills


async def _only_poison(queue: Queue) -> bool:
    return {job.session_id for job in await queue.jobs()} <= {"poison"}
