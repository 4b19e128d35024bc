"""The queue in PostgreSQL: stopped workers, a database that goes away, many workers."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from deep_durable import QueueError, open_queue

from plugins.durable.tests.crew import Crew, effects, finished, until
from tests.postgresql import Cluster, cluster

pytestmark = pytest.mark.needs("PostgreSQL")


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """A server that a test may stop."""
    with cluster() as running:
        yield running


@pytest.mark.slow
def test_a_stopped_worker_that_continues_ends_nothing_of_its_successor(postgresql_store: str, tmp_path: Path) -> None:
    async def main() -> None:
        queue = open_queue(postgresql_store)
        crew = Crew(postgresql_store, tmp_path, "wait")
        await queue.enqueue("one")
        with crew.running() as (stopped,):
            await until(lambda: effects(tmp_path, "begin") == ["one"])
            stopped.send_signal(signal.SIGSTOP)
            crew.start()
            await until(lambda: effects(tmp_path, "begin") == ["one", "one"])
            (before,) = await queue.jobs()
            stopped.send_signal(signal.SIGCONT)
            (tmp_path / "gate").touch()
            assert await finished(queue) == []
            crew.processes[1].kill()
            await queue.enqueue("two")
            await until(lambda: "two" in effects(tmp_path))  # the stopped one works again
            assert before.worker is not None
            assert not before.worker.endswith(f":{stopped.pid}")
        await queue.aclose()

    asyncio.run(main())
    assert Counter(effects(tmp_path)) == {"one": 2, "two": 1}  # the session's lease stops the second


@pytest.mark.slow
def test_a_continued_worker_does_not_end_the_job_of_its_successor(postgresql_store: str, tmp_path: Path) -> None:
    async def main() -> None:
        queue = open_queue(postgresql_store)
        await queue.enqueue("one")
        first, second = Crew(postgresql_store, tmp_path, "wait"), Crew(postgresql_store, tmp_path, "hang")
        with first.running() as (stopped,), second.running(0):
            await until(lambda: effects(tmp_path, "begin") == ["one"])
            stopped.send_signal(signal.SIGSTOP)
            second.start()
            await until(lambda: effects(tmp_path, "hang") == ["one"])
            (tmp_path / "gate").touch()
            stopped.send_signal(signal.SIGCONT)
            await until(lambda: effects(tmp_path) == ["one"])
            stopped.terminate()
            stopped.communicate()
            (job,) = await queue.jobs()  # the successor runs it still: killed now, the session would not be lost
            assert job.state == "running"
            assert job.worker is not None
            assert job.worker.endswith(f":{second.processes[0].pid}")
        await queue.aclose()

    asyncio.run(main())


@pytest.mark.slow
def test_workers_survive_a_restart_of_the_database(own_cluster: Cluster, tmp_path: Path) -> None:
    async def main() -> None:
        store = own_cluster.create_database()
        queue = open_queue(store)
        await queue.enqueue("one")
        with Crew(store, tmp_path, "wait").running() as (worker,):
            await until(lambda: effects(tmp_path, "begin") == ["one"])
            own_cluster.stop()
            (tmp_path / "gate").touch()
            await until(lambda: effects(tmp_path) == ["one"])
            own_cluster.start()
            await queue.enqueue("two")
            await until(lambda: "two" in effects(tmp_path))
            assert await finished(queue) == []
            assert worker.poll() is None
        await queue.aclose()

    asyncio.run(main())


@pytest.mark.slow
def test_a_server_that_does_not_answer_is_one_error_without_the_password() -> None:
    async def main() -> None:
        queue = open_queue("postgresql://deep:secret@/x?host=/nonexistent&connect_timeout=1")
        with pytest.raises(QueueError, match="the queue in PostgreSQL cannot be used") as caught:
            await queue.enqueue("one")
        assert "secret" not in str(caught.value)

    asyncio.run(main())
