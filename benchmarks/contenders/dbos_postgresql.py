"""DBOS as a queue on PostgreSQL, with a reaper of our own: what `deep_durable.postgresql` was measured against.

It does what the comparison needs: jobs, several workers, takeover. It sets no session aside and joins no wake-ups.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from uuid import uuid4

import psycopg
from dbos import DBOS, DBOSClient, DBOSConfig
from deep_durable import Job, Queue, WorkerInfo
from deep_durable.queue import Attempt, Step

__all__ = ["DbosPostgresqlQueue"]

LIVES = 5_310_921
"""The class of the advisory locks that living workers hold."""
TAKE_OVER = """
update dbos.workflow_status set status='ENQUEUED', owner_xid=null, started_at_epoch_ms=null, application_version=null
where status='PENDING' and application_name='deep' and executor_id=%s
"""


class DbosPostgresqlQueue(Queue):
    """A queue whose workers hold an advisory lock while they live.

    Args:
        url: `postgresql://user@host/database`.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._opened: DBOSClient | None = None

    def _client(self) -> DBOSClient:
        if self._opened is None:
            # Not in a transaction: DBOS creates indexes concurrently, which waits for all transactions to end.
            with psycopg.connect(self._url, autocommit=True) as connection:
                connection.execute("select pg_advisory_lock(%s)", [LIVES])
                DBOS.migrate(self._url)
            self._opened = DBOSClient(system_database_url=self._url, application_name="deep")
        return self._opened

    async def enqueue(self, session_id: str) -> None:
        """Add a workflow."""
        client = await asyncio.to_thread(self._client)
        await client.enqueue_async(
            {"workflow_name": "resume", "queue_name": "deep", "workflow_id": f"{session_id}/{uuid4()}"}, session_id
        )

    async def work(self, attempt: Attempt, step: Step, *, name: str, concurrency: int, stop: asyncio.Event) -> None:
        """Hold the lock of this worker, launch DBOS, and take over once a second."""
        await asyncio.to_thread(self._client)
        loop = asyncio.get_running_loop()

        @DBOS.workflow(name="resume", max_recovery_attempts=None)
        async def resume(session_id: str) -> None:  # pyright: ignore[reportUnusedFunction] - DBOS calls it
            async def run() -> None:
                await attempt(session_id)

            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(run(), loop))

        def launch() -> None:
            config: DBOSConfig = {
                "name": "deep",
                "system_database_url": self._url,
                "executor_id": name,
                "application_version": "1",
                "log_level": "CRITICAL",
            }
            DBOS(config=config)
            DBOS.launch()
            DBOS.register_queue(
                "deep", worker_concurrency=concurrency, polling_interval_sec=0.1, on_conflict="always_update"
            )

        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as lives:
            await lives.execute("select pg_advisory_lock(%s, hashtext(%s))", [LIVES, name])
            await asyncio.to_thread(launch)
            while not stop.is_set():
                await self._take_over(name)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), 1.0)
            await asyncio.to_thread(DBOS.destroy, workflow_completion_timeout_sec=1_000_000)

    async def _take_over(self, name: str) -> list[str]:
        taken: list[str] = []
        async with await psycopg.AsyncConnection.connect(self._url, autocommit=True) as connection:
            dead = await self._executors() - {name}
            for executor in dead:
                found = await connection.execute("select pg_try_advisory_lock(%s, hashtext(%s))", [LIVES, executor])
                if await found.fetchone() == (True,):
                    if executor in await self._executors():
                        await connection.execute(TAKE_OVER, [executor])
                        taken.append(executor)
                    await connection.execute("select pg_advisory_unlock(%s, hashtext(%s))", [LIVES, executor])
        return taken

    async def _executors(self) -> set[str]:
        pending = await self._client().list_workflows_async(status="PENDING", load_input=False, load_output=False)
        return {status.executor_id for status in pending if status.executor_id}

    async def takeover(self) -> Sequence[str]:
        """Give the jobs of dead workers to the others; return the workers."""
        return await self._take_over("")

    async def jobs(self) -> Sequence[Job]:
        """Return the jobs that wait or run."""
        client = await asyncio.to_thread(self._client)
        found = await client.list_workflows_async(status=["ENQUEUED", "PENDING"], load_input=False, load_output=False)
        return [
            Job(status.workflow_id.rpartition("/")[0], "running" if status.status == "PENDING" else "waiting")
            for status in found
        ]

    async def workers(self) -> Sequence[WorkerInfo]:
        """Not compared."""
        raise NotImplementedError

    async def release(self, session_id: str) -> None:
        """Not compared."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Close the client."""
        if self._opened is not None:
            await asyncio.to_thread(self._opened.destroy)
