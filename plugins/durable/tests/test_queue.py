"""Queues on SQLite and PostgreSQL, with workers in processes of their own that are killed and stopped."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from deep_durable import Job, Queue, QueueError, SessionSetAside, enqueue, open_queue

from plugins.durable.tests.crew import Crew, effects, finished, until
from tests.drawn import many


@asynccontextmanager
async def opened(store: str) -> AsyncGenerator[Queue]:
    queue = open_queue(store)
    try:
        yield queue
    finally:
        await queue.aclose()


def open_gate(folder: Path) -> None:
    (folder / "gate").touch()


def test_all_that_open_a_new_queue_at_once_get_their_sessions_in(store: str) -> None:
    asyncio.run(opened_at_once(store))


@pytest.mark.needs("PostgreSQL")
def test_also_in_a_database_whose_transactions_see_what_was_when_they_began(postgresql_store: str) -> None:
    asyncio.run(opened_at_once(f"{postgresql_store}&options=-c%20default_transaction_isolation%3Dserializable"))


async def opened_at_once(store: str) -> None:
    async def put(name: str) -> None:
        async with opened(store) as queue:
            await queue.enqueue(name)

    await asyncio.gather(*(put(f"s{number}") for number in range(8)))
    async with opened(store) as queue:
        assert len(await queue.jobs()) == 8


@pytest.mark.slow
def test_a_worker_takes_what_was_enqueued_before_it_started(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        await enqueue(store, "one")
        await enqueue(store, "two")
        async with opened(store) as queue:
            assert sorted(job.session_id for job in await queue.jobs()) == ["one", "two"]
            with Crew(store, tmp_path, "finish").running():
                assert await finished(queue) == []

    asyncio.run(main())
    assert sorted(effects(tmp_path)) == ["one", "two"]


@pytest.mark.slow
def test_a_worker_takes_what_is_enqueued_while_it_waits(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            with Crew(store, tmp_path, "finish").running():
                for name in ("one", "two"):
                    await queue.enqueue(name)
                    await until(lambda name=name: name in effects(tmp_path))

    asyncio.run(main())


@pytest.mark.slow
def test_a_wake_up_while_the_session_runs_starts_one_more_attempt_after_it(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            await queue.enqueue("one")
            with Crew(store, tmp_path, "wait").running():
                await until(lambda: effects(tmp_path, "begin") == ["one"])
                for _ in range(5):
                    await queue.enqueue("one")
                await queue.enqueue("two")  # the second place of this worker: "one" does not run beside itself
                await until(lambda: "two" in effects(tmp_path, "begin"))
                assert Counter(effects(tmp_path, "begin")) == {"one": 1, "two": 1}
                open_gate(tmp_path)
                await finished(queue)

    asyncio.run(main())
    ends = Counter(effects(tmp_path))
    assert ends["one"] >= 2
    assert ends["two"] == 1


def test_a_killed_workers_sessions_run_on_the_next(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        crew = Crew(store, tmp_path, "wait")
        async with opened(store) as queue:
            with crew.running() as (first,):
                for name in ("one", "two", "three"):
                    await queue.enqueue(name)
                await until(lambda: len(effects(tmp_path, "begin")) == 2)
                first.kill()
                first.wait()
                open_gate(tmp_path)
                crew.start()
                assert await finished(queue) == []

    asyncio.run(main())
    assert Counter(effects(tmp_path)) == {"one": 1, "two": 1, "three": 1}


@pytest.mark.slow
def test_many_sessions_and_kills_lose_nothing(store: str, tmp_path: Path) -> None:
    kills = many(2, 5)
    sessions = [f"s{number}" for number in range(12 * kills)]

    async def main() -> None:
        crew = Crew(store, tmp_path, "work")
        async with opened(store) as queue:
            for name in sessions:
                await queue.enqueue(name)
            with crew.running(2 if store.startswith("postgresql") else 1):
                for kill in range(1, kills + 1):
                    await until(lambda kill=kill: len(effects(tmp_path)) >= 10 * kill or not any(crew.live()))
                    victim = next(crew.live())
                    victim.kill()
                    victim.wait()
                    crew.start()
                assert await finished(queue) == []

    asyncio.run(main())
    assert set(effects(tmp_path)) == set(sessions)


@pytest.mark.slow
def test_a_session_that_kills_three_workers_alone_is_set_aside_and_released(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        crew = Crew(store, tmp_path, "die")
        async with opened(store) as queue:
            await queue.enqueue("poison")
            with crew.running():
                for deaths in (1, 2, 3, 4):  # the first one only makes it a suspect
                    await until(lambda deaths=deaths: len(effects(tmp_path, "begin")) == deaths)
                    for process in crew.processes:
                        process.wait()
                    crew.start()
                await queue.enqueue("healthy")
                (poison,) = await finished(queue)
                assert (poison.session_id, poison.state, poison.failures) == ("poison", "set aside", 3)
                assert "died" in poison.error
                with pytest.raises(SessionSetAside, match="deep workers --release poison"):
                    await queue.enqueue("poison")
                assert effects(tmp_path) == ["healthy"]

                open_gate(tmp_path)
                await queue.release("poison")
                await until(lambda: "poison" in effects(tmp_path))
                assert await finished(queue) == []
                await queue.enqueue("poison")
                with pytest.raises(QueueError, match="not set aside"):
                    await queue.release("poison")

    asyncio.run(main())
    assert effects(tmp_path, "begin").count("poison") >= 5


@pytest.mark.slow
def test_sigterm_lets_the_running_sessions_end(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            for name in ("one", "two", "three", "four"):
                await queue.enqueue(name)
            with Crew(store, tmp_path, "work").running() as (worker,):
                await until(lambda: len(effects(tmp_path, "begin")) == 2)
                worker.terminate()
                out, err = worker.communicate()
                assert (worker.returncode, out, err) == (0, "", "")
                assert sorted(effects(tmp_path)) == sorted(effects(tmp_path, "begin"))
                left = {job.session_id for job in await queue.jobs()}
                assert left == {"one", "two", "three", "four"} - set(effects(tmp_path))
                assert await queue.workers() == []

    asyncio.run(main())


@pytest.mark.slow
def test_sigterm_hands_back_what_does_not_end_and_counts_no_failure(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        crew = Crew(store, tmp_path, "wait")
        async with opened(store) as queue:
            await queue.enqueue("one")
            with crew.running():
                for times in range(1, 5):  # more often than a session may fail
                    await until(lambda times=times: len(effects(tmp_path, "begin")) == times)
                    worker = next(crew.live())
                    worker.terminate()
                    worker.communicate()
                    assert worker.returncode == 0
                    (job,) = await queue.jobs()
                    assert (job.state, job.failures) == ("waiting", 0)
                    crew.start()
                open_gate(tmp_path)
                assert await finished(queue) == []

    asyncio.run(main())
    assert effects(tmp_path) == ["one"]


@pytest.mark.slow
def test_ctrl_c_hands_back_what_runs(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            await queue.enqueue("one")
            with Crew(store, tmp_path, "wait").running() as (worker,):
                await until(lambda: effects(tmp_path, "begin") == ["one"])
                worker.send_signal(signal.SIGINT)
                worker.communicate()
                (job,) = await queue.jobs()
                assert (job.session_id, job.state, job.failures) == ("one", "waiting", 0)

    asyncio.run(main())


@pytest.mark.slow
def test_a_busy_session_is_tried_again_and_never_fails(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            await queue.enqueue("one")
            with Crew(store, tmp_path, "busy").running():
                await until(lambda: len(effects(tmp_path, "busy")) > 4)
                open_gate(tmp_path)
                assert await finished(queue) == []

    asyncio.run(main())
    assert effects(tmp_path) == ["one"]


@pytest.mark.slow
def test_a_handler_that_raises_is_tried_again_later_with_its_error_shown(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            await queue.enqueue("one")
            with Crew(store, tmp_path, "fail").running():
                seen: list[Job] = []

                async def has_failed_twice() -> bool:
                    seen[:] = await queue.jobs()
                    return seen[0].failures > 1

                await until(has_failed_twice)
                assert seen[0].error == "ValueError: no such model"

    asyncio.run(main())


@pytest.mark.slow
def test_lists_show_who_works_on_what(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            assert await queue.workers() == []
            for name in ("one", "two", "three"):
                await queue.enqueue(name)
            with Crew(store, tmp_path, "wait").running() as (worker,):
                await until(lambda: len(effects(tmp_path, "begin")) == 2)
                running = set(effects(tmp_path, "begin"))

                async def is_shown() -> bool:
                    return bool(await queue.workers())

                await until(is_shown)  # a worker may begin with its first sessions before it has written its own row
                (info,) = await queue.workers()
                assert info.name.endswith(f":{worker.pid}")
                assert set(info.sessions) == running
                states = {job.session_id: (job.state, job.worker) for job in await queue.jobs()}
                assert states == {
                    name: ("running", info.name) if name in running else ("waiting", None)
                    for name in ("one", "two", "three")
                }
                worker.kill()
                worker.wait()

                async def is_gone() -> bool:
                    return not await queue.workers()

                await until(is_gone)

    asyncio.run(main())


@pytest.mark.slow
def test_sessions_may_have_any_name(store: str, tmp_path: Path) -> None:
    names = ["a/b", "a", "a/aside", "%", "ü 'x' \"y\"", "a_b"]

    async def main() -> None:
        async with opened(store) as queue:
            for name in names:
                await queue.enqueue(name)
            assert sorted(job.session_id for job in await queue.jobs()) == sorted(names)

    asyncio.run(main())


@pytest.mark.slow
def test_workers_share_the_sessions_and_run_each_once(store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(store) as queue:
            with Crew(store, tmp_path, "work").running(3):
                await asyncio.gather(*(queue.enqueue(f"s{number}") for number in range(40)))
                assert await finished(queue) == []

    asyncio.run(main())
    assert Counter(effects(tmp_path)) == {f"s{number}": 1 for number in range(40)}


@pytest.mark.parametrize("url", ["memory:", "sqlite://", "sqlite:///:memory:", "redis://u:secret@host/0", "nonsense"])
def test_a_store_that_processes_cannot_share_has_no_queue(url: str) -> None:
    with pytest.raises(QueueError, match="postgresql://") as caught:
        open_queue(url)
    assert "secret" not in str(caught.value)


def test_the_queue_of_a_file_is_beside_it(tmp_path: Path) -> None:
    async def main() -> None:
        await enqueue(f"sqlite:///{tmp_path}/my%20sessions.db?durability=full", "one")

    asyncio.run(main())
    assert (tmp_path / "my sessions.queue.db").exists()


@pytest.mark.slow
def test_a_stopped_worker_on_a_file_continues(sqlite_store: str, tmp_path: Path) -> None:
    async def main() -> None:
        async with opened(sqlite_store) as queue:
            await queue.enqueue("one")
            with Crew(sqlite_store, tmp_path, "wait").running() as (worker,):
                await until(lambda: effects(tmp_path, "begin") == ["one"])
                worker.send_signal(signal.SIGSTOP)
                await queue.enqueue("two")
                worker.send_signal(signal.SIGCONT)
                open_gate(tmp_path)
                assert await finished(queue) == []

    asyncio.run(main())
    assert sorted(effects(tmp_path)) == ["one", "two"]
