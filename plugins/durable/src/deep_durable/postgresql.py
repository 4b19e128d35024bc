"""The queue in PostgreSQL: Procrastinate, for any number of workers and hosts."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from functools import partial
from typing import Any, LiteralString, TypeVar

import psycopg
from procrastinate import App, JobContext, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued, ConnectorException
from procrastinate.jobs import Job as QueuedJob
from procrastinate.jobs import Status
from procrastinate.worker import Worker as JobWorker
from psycopg import AsyncConnection
from psycopg_pool import AsyncConnectionPool

from .errors import QueueError
from .queue import Again, Attempt, Done, Failed, Failures, Job, Queue, Step, Verdict, WorkerInfo, blame

__all__ = ["PostgresqlQueue"]

logger = logging.getLogger(__name__)
T = TypeVar("T")
QUEUE, TASK, WAKE = "deep", "deep:resume", "deep:wake"
SETUP_LOCK, TAKEOVER_LOCK = 5_310_921_001, 5_310_921_002
"""Advisory locks of the database: of the process that creates the tables, and of the one that takes over."""
LIVES = 5_310_921
"""The class of the locks that workers hold while they live: the server drops one when its process dies."""
FORGET = 86_400.0
"""Seconds until Procrastinate deletes a silent worker. One that only slept goes on under its number until then."""
EARLY = 1
"""The priority of a session that has run before: it does not wait behind those that have not."""
TABLES = """
create table if not exists deep_durable_attempts (
    session_id text primary key, count real not null, total int not null, step bigint, error text not null,
    aside boolean not null default false);
create table if not exists deep_durable_workers (
    worker_id int primary key, name text not null, seen timestamptz not null default now());
"""


class PostgresqlQueue(Queue):
    """A queue in a PostgreSQL database.

    An attempt is one job of Procrastinate, and another attempt is another job: a worker that was taken for dead and
    continues can end its own job only, never that of its successor.

    Args:
        url: `postgresql://user@host/database`.
        silence: seconds without a sign of life after which a worker counts as dead. It gives five in that time.
    """

    def __init__(self, url: str, *, silence: float = 10.0) -> None:
        self._url = url
        self._pool = AsyncConnectionPool(
            url,
            min_size=1,
            max_size=4,
            timeout=10,
            open=False,
            check=AsyncConnectionPool.check_connection,
            configure=_configure,
        )
        self._app = App(connector=PsycopgConnector())
        self._app.task(name=TASK, queue=QUEUE, pass_context=True)(self._resume)
        self._app.task(name=WAKE, queue=QUEUE)(self._again)
        self.silence = silence
        self._attempt: Attempt = _no_attempt
        self._step: Step = _no_attempt
        self._is_open = False
        self._opening = asyncio.Lock()

    @property
    def _beat(self) -> float:
        """Seconds between two signs of life."""
        return self.silence / 5

    async def _opened(self) -> App:
        async with self._opening:
            if not self._is_open:
                try:
                    await self._pool.open(wait=True, timeout=10)
                    await self._app.open_async(self._pool)
                    async with self._locked(SETUP_LOCK, wait=True):
                        if not await self._app.check_connection_async():
                            await self._app.schema_manager.apply_schema_async()
                        await self._write(TABLES)
                except Exception as error:
                    await self._pool.close()
                    raise QueueError(f"the queue in PostgreSQL cannot be opened: {error}") from error
                self._is_open = True
        return self._app

    async def _write(self, query: LiteralString, **arguments: Any) -> None:
        await self._app.connector.execute_query_async(query, **arguments)

    async def _read(self, query: LiteralString, **arguments: Any) -> Sequence[Mapping[str, Any]]:
        return await self._app.connector.execute_query_all_async(query, **arguments)

    @asynccontextmanager
    async def _locked(self, key: int, *, wait: bool) -> AsyncGenerator[bool]:
        """Hold an advisory lock; yield whether it was free."""
        async with self._pool.connection() as connection, connection.transaction():
            if wait:
                await connection.execute("select pg_advisory_xact_lock(%s)", [key])
                yield True
            else:
                cursor = await connection.execute("select pg_try_advisory_xact_lock(%s)", [key])
                yield await cursor.fetchone() == (True,)

    # -- enqueue -------------------------------------------------------------------------------------------------------

    async def enqueue(self, session_id: str) -> None:
        """Add a job, unless one of this session waits."""
        await self._opened()
        failures, is_aside = await self._failures(session_id)
        if is_aside:
            raise failures.refusal(session_id)
        await self._put(session_id)

    async def _put(self, session_id: str, priority: int = 0) -> None:
        """Add a job, unless one like it waits."""
        how: dict[str, Any] = {"lock": session_id, "queueing_lock": f"{session_id} {priority}", "priority": priority}
        with contextlib.suppress(AlreadyEnqueued):
            await self._app.configure_task(TASK, **how).defer_async(session_id=session_id)

    async def _again(self, session_id: str, seconds: float = 0.0) -> None:
        """Add a job for a session that has run before, after a time."""
        if not seconds:
            await self._put(session_id, EARLY)
            return
        # Not the job itself: one that waits for a time would keep back an earlier wake-up of its session.
        how: dict[str, Any] = {"queueing_lock": f"{session_id} later", "priority": EARLY}
        when = {"milliseconds": int(seconds * 1000)}
        with contextlib.suppress(AlreadyEnqueued):
            await self._app.configure_task(WAKE, schedule_in=when, **how).defer_async(session_id=session_id)

    async def release(self, session_id: str) -> None:
        """Delete the failures and add a job."""
        await self._opened()
        rows = await self._read(
            "delete from deep_durable_attempts where session_id = %(id)s and aside returning session_id", id=session_id
        )
        if not rows:
            raise QueueError(f"session {session_id} is not set aside; deep workers lists those that are")
        await self._put(session_id)

    # -- failures ------------------------------------------------------------------------------------------------------

    async def _failures(self, session_id: str) -> tuple[Failures, bool]:
        """Return the failures of a session, and whether it is set aside."""
        rows = await self._read("select * from deep_durable_attempts where session_id = %(id)s", id=session_id)
        if not rows:
            return Failures(), False
        row = rows[0]
        return Failures(row["count"], row["total"], row["step"], row["error"]), row["aside"]

    async def _save(self, session_id: str, failures: Failures) -> None:
        await self._write(
            "insert into deep_durable_attempts values (%(id)s, %(count)s, %(total)s, %(step)s, %(error)s, %(aside)s) "
            "on conflict (session_id) do update set (count, total, step, error, aside) = "
            "(excluded.count, excluded.total, excluded.step, excluded.error, excluded.aside)",
            id=session_id,
            aside=failures.is_final,
            **asdict(failures),
        )

    async def _may_begin(self, session_id: str) -> bool:
        """Note where the session is; return False if it was set aside while the job waited."""
        (row,) = await self._read(
            "insert into deep_durable_attempts values (%(id)s, 0, 0, %(step)s, '') "
            "on conflict (session_id) do update set step = excluded.step returning aside",
            id=session_id,
            step=await self._step(session_id),
        )
        return not row["aside"]

    # -- work ----------------------------------------------------------------------------------------------------------

    async def work(self, attempt: Attempt, step: Step, *, name: str, concurrency: int, stop: asyncio.Event) -> None:
        """Run Procrastinate's worker; start another one if the database goes away."""
        await self._opened()
        self._attempt, self._step = attempt, step
        seconds = 1.0
        while not stop.is_set():
            try:
                await self._work(name, concurrency, stop)
                seconds = 1.0
            except (ConnectorException, psycopg.Error) as error:
                # The database went away, or closed connections because this process slept.
                logger.warning("worker %s begins again: %s", name, error.__cause__ or error)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), seconds)
                seconds = min(30.0, seconds * 2)

    async def _work(self, name: str, concurrency: int, stop: asyncio.Event) -> None:
        worker = JobWorker(
            self._app,
            queues=[QUEUE],
            name=name,
            concurrency=concurrency,
            fetch_job_polling_interval=1.0,
            delete_jobs="always",
            install_signal_handlers=False,
            update_heartbeat_interval=self._beat,
            stalled_worker_timeout=FORGET,
        )
        work = asyncio.ensure_future(worker.run())
        watch = asyncio.ensure_future(self._watch(worker, name))
        stopped = asyncio.ensure_future(stop.wait())
        try:
            await asyncio.wait([work, watch, stopped], return_when=asyncio.FIRST_COMPLETED)
            worker.stop()
            await work
            if watch.done():
                watch.result()
        finally:
            for task in (work, watch, stopped):
                task.cancel()
            with contextlib.suppress(ConnectorException, psycopg.Error):
                await self._write("delete from deep_durable_workers where name = %(name)s", name=name)

    async def _watch(self, worker: JobWorker, name: str) -> None:
        """Show that this worker lives, and take over from those that do not."""
        async with await AsyncConnection.connect(self._url, autocommit=True) as lives:
            while worker.worker_id is None:  # noqa: ASYNC110 - Procrastinate has no event for it
                await asyncio.sleep(0.01)
            await lives.execute("select pg_advisory_lock(%s, %s)", [LIVES, worker.worker_id])
            while True:
                # On the connection that holds the lock: one that is lost ends this worker's claim to live.
                await lives.execute(
                    "insert into deep_durable_workers values (%s, %s) "
                    "on conflict (worker_id) do update set seen = now()",
                    [worker.worker_id, name],
                )
                await self.takeover()
                await asyncio.sleep(self._beat)

    async def _resume(self, context: JobContext, session_id: str) -> None:
        if not await _patiently(session_id, partial(self._may_begin, session_id)):
            return  # `release` enqueues it again
        try:
            verdict = await self._attempt(session_id)
        except BaseException:
            # The program ends, and Procrastinate will delete this job as aborted.
            await self._again(session_id)
            raise
        await _patiently(session_id, partial(self._settle, session_id, verdict))

    async def _settle(self, session_id: str, verdict: Verdict) -> None:
        match verdict:
            case Done():
                await self._write("delete from deep_durable_attempts where session_id = %(id)s", id=session_id)
            case Again():
                await self._again(session_id, verdict.seconds)
            case Failed():
                failures, _ = await self._failures(session_id)
                failures = failures.add(verdict.error, await self._step(session_id))
                await self._save(session_id, failures)
                if not failures.is_final:
                    await self._again(session_id, failures.pause)

    async def takeover(self) -> Sequence[str]:
        """Give the jobs of dead and silent workers a successor. One process at a time does this."""
        await self._opened()
        taken: list[str] = []
        async with self._locked(TAKEOVER_LOCK, wait=False) as is_free:
            if not is_free:
                return []
            manager = self._app.job_manager
            rows = await self._read(
                "delete from deep_durable_workers where seen < now() - make_interval(secs => %(silence)s) "
                "or pg_try_advisory_xact_lock(%(lives)s, worker_id) returning worker_id",
                silence=self.silence,
                lives=LIVES,
            )
            gone = {row["worker_id"] for row in rows}
            stalled: dict[int | None, list[QueuedJob]] = {}
            dead: dict[int | None, list[QueuedJob]] = {}
            for job in await manager.get_stalled_jobs(queue=QUEUE, seconds_since_heartbeat=self.silence):
                stalled.setdefault(job.worker_id, []).append(job)
            for job in await manager.list_jobs_async(queue=QUEUE, status=Status.DOING.value) if gone else ():
                if job.worker_id in gone and job.worker_id not in stalled:
                    dead.setdefault(job.worker_id, []).append(job)
            for jobs in (*stalled.values(), *dead.values()):
                await self._blame({_session(job) for job in jobs if job.task_name == TASK})
                for job in jobs:
                    # The new job first: a death between the two leaves both, and the old one's lock holds it back.
                    await self._again(_session(job))
                    with contextlib.suppress(ConnectorException):  # its worker lives after all, and has ended it
                        await manager.finish_job_by_id_async(job.id or 0, Status.ABORTED, delete_job=True)
                    taken.append(_session(job))
        return taken

    async def _blame(self, sessions: Iterable[str]) -> None:
        lost = {session: ((await self._failures(session))[0], await self._step(session)) for session in sessions}
        for session, failures in blame(lost).items():
            await self._save(session, failures)

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def jobs(self) -> Sequence[Job]:
        """Read the jobs of Procrastinate and the failures."""
        await self._opened()
        failures = {row["session_id"]: row for row in await self._read("select * from deep_durable_attempts")}
        names = {row["worker_id"]: row["name"] for row in await self._read("select * from deep_durable_workers")}
        jobs: dict[str, Job] = {}
        for job in await self._app.job_manager.list_jobs_async(queue=QUEUE):
            session_id = _session(job)
            row = failures.get(session_id) or {"total": 0, "error": ""}
            if job.status == Status.DOING.value:
                worker = names.get(job.worker_id) or "a worker that died"
                jobs[session_id] = Job(session_id, "running", worker, row["total"], row["error"])
            else:
                jobs.setdefault(session_id, Job(session_id, "waiting", None, row["total"], row["error"]))
        for session_id, row in failures.items():
            if row["aside"]:
                jobs[session_id] = Job(session_id, "set aside", None, row["total"], row["error"])
        return [*jobs.values()]

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return those that gave a sign of life within `silence` seconds."""
        await self._opened()
        rows = await self._read(
            "select worker_id, name, extract(epoch from now() - seen)::float as silent from deep_durable_workers "
            "where seen > now() - make_interval(secs => %(silence)s) order by name",
            silence=self.silence,
        )
        sessions: dict[int | None, list[str]] = {}
        for job in await self._app.job_manager.list_jobs_async(queue=QUEUE, status=Status.DOING.value):
            sessions.setdefault(job.worker_id, []).append(_session(job))
        return [WorkerInfo(row["name"], sessions.get(row["worker_id"], []), row["silent"]) for row in rows]

    async def aclose(self) -> None:
        """Close the pool."""
        if self._is_open:
            await self._pool.close()
            self._is_open = False


async def _no_attempt(session_id: str) -> Any:
    raise RuntimeError(f"session {session_id} runs outside `work`")


async def _configure(connection: AsyncConnection[Any]) -> None:
    # Each query is whole by itself; BEGIN and COMMIT would be two more round trips.
    await connection.set_autocommit(True)
    # A process that is stopped inside a transaction must not keep its locks, the one of takeover least of all.
    await connection.execute("set idle_in_transaction_session_timeout = '5s'")


async def _patiently(session_id: str, work: Callable[[], Awaitable[T]]) -> T:
    """Hold a job until the database answers: Procrastinate deletes one that raises."""
    while True:
        try:
            return await work()
        except (ConnectorException, psycopg.Error) as error:
            logger.warning("session %s waits for the database: %s", session_id, error.__cause__ or error)
            await asyncio.sleep(1)


def _session(job: QueuedJob) -> str:
    return str(job.task_kwargs["session_id"])
