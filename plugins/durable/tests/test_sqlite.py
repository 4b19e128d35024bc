"""The queue in a SQLite file: one worker at a time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest
from deep_durable import QueueError, QueueLocked, open_queue

from plugins.durable.tests.crew import Crew, effects, until


@pytest.mark.slow
@pytest.mark.needs("SQLite 3.42")
def test_a_second_worker_of_a_file_is_refused_and_the_next_starts_after_a_kill(
    sqlite_store: str, tmp_path: Path
) -> None:
    async def main() -> None:
        queue = open_queue(sqlite_store)
        await queue.enqueue("one")

        async def attempt(session_id: str) -> NoReturn:
            raise AssertionError(session_id)

        crew = Crew(sqlite_store, tmp_path, "wait")
        with crew.running() as (first,):
            await until(lambda: effects(tmp_path, "begin") == ["one"])
            with pytest.raises(QueueLocked, match=rf":{first.pid} works on .*sessions\.queue\.db.*postgresql://"):
                await queue.work(attempt, attempt, name="second", concurrency=1, stop=asyncio.Event())
            first.kill()
            first.wait()
            crew.start()
            await until(lambda: effects(tmp_path, "begin") == ["one", "one"])
        await queue.aclose()

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.needs("SQLite 3.42")
def test_processes_that_open_a_new_file_at_once_all_get_their_sessions_in(sqlite_store: str) -> None:
    async def add(name: str) -> None:
        queue = open_queue(sqlite_store)
        await queue.enqueue(name)
        await queue.aclose()

    async def main() -> None:
        await asyncio.gather(*(add(f"s{number}") for number in range(8)))
        queue = open_queue(sqlite_store)
        assert len(await queue.jobs()) == 8
        await queue.aclose()

    asyncio.run(main())


@pytest.mark.needs("SQLite 3.42")
def test_a_file_that_is_no_database_is_an_error_with_its_path(sqlite_store: str, tmp_path: Path) -> None:
    (tmp_path / "sessions.queue.db").write_text("no database at all, but long enough to be one " * 100)

    async def main() -> None:
        queue = open_queue(sqlite_store)
        with pytest.raises(QueueError, match=r"sessions\.queue\.db"):
            await queue.enqueue("one")
        await queue.aclose()

    asyncio.run(main())
