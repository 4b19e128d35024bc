"""The queue in a SQLite file: DBOS, with nothing to start and one worker a file."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from uuid import uuid4

from dbos import DBOS, DBOSClient, DBOSConfig, EnqueueOptions, WorkflowStatus
from filelock import FileLock, Timeout

from .errors import QueueError, QueueLocked
from .queue import Again, Attempt, Done, Failed, Failures, Job, Queue, Step, Verdict, WorkerInfo, blame

__all__ = ["SqliteQueue"]

NAME, ASIDE = "deep", "deep-aside"
"""Queues of DBOS. No worker listens to the second one: it keeps the sessions that are set aside."""
WORKFLOW = "resume"
NONE = Failures()
POLL = 0.1
CLEANUP = 60.0
"""Seconds between two removals of finished jobs: DBOS keeps them otherwise."""


class SqliteQueue(Queue):
    """A queue in a SQLite file.

    One process at a time works on it, which a lock beside the file ensures; any number of processes enqueue. DBOS has
    one instance a process, so a process that uses DBOS itself cannot be its worker.

    Args:
        path: the file. Missing directories are created.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._worker = self.path.with_name(f"{self.path.name}.worker")
        self._lock = FileLock(f"{self.path}.lock")
        self._opened: DBOSClient | None = None
        self._running: dict[str, bool] = {}
        """Sessions that run here -> whether a wake-up arrived meanwhile."""

    @property
    def _url(self) -> str:
        return f"sqlite:///{self.path}"

    async def _client(self) -> DBOSClient:
        if self._opened is None:
            self._opened = await asyncio.to_thread(self._open)
        return self._opened

    def _open(self) -> DBOSClient:
        if sys.version_info >= (3, 12) and sqlite3.sqlite_version_info < (3, 42):
            # DBOS takes that Python as a sign of a newer SQLite, and each insert would fail.
            raise QueueError(
                f"the queue in a SQLite file needs SQLite 3.42 with this Python, which has {sqlite3.sqlite_version}: "
                "use Python 3.11, a Python with a newer SQLite, or a store in PostgreSQL"
            )
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self.path}.setup"):
                DBOS.migrate(self._url)  # 2 ms where there is nothing to do
            return DBOSClient(system_database_url=self._url, application_name=NAME)
        except Exception as error:
            raise QueueError(f"the queue {self.path} cannot be opened: {error}") from error

    # -- enqueue -------------------------------------------------------------------------------------------------------

    async def enqueue(self, session_id: str) -> None:
        """Add a workflow. Several of one session may wait; the worker runs them one after the other."""
        aside = await self._aside(session_id)
        if aside is not None:
            raise _failures(aside).refusal(session_id)
        await self._put(session_id)

    async def _put(self, session_id: str, *, seconds: float = 0.0, failures: Failures = NONE) -> None:
        client = await self._client()
        options: EnqueueOptions = {
            "workflow_name": WORKFLOW,
            "queue_name": NAME,
            "workflow_id": f"{session_id}/{uuid4()}",
            "attributes": asdict(failures),
        }
        if failures.is_final:
            options["queue_name"], options["workflow_id"] = ASIDE, f"{session_id}/aside"
        elif seconds:
            options["delay_seconds"] = seconds
        await client.enqueue_async(options, session_id)

    async def release(self, session_id: str) -> None:
        """Delete the workflow that was set aside, and add one with no failures."""
        aside = await self._aside(session_id)
        if aside is None:
            raise QueueError(f"session {session_id} is not set aside; deep workers lists those that are")
        client = await self._client()
        await self._put(session_id)
        await client.delete_workflow_async(aside.workflow_id)

    async def _aside(self, session_id: str) -> WorkflowStatus | None:
        client = await self._client()
        found = await client.list_workflows_async(
            workflow_ids=[f"{session_id}/aside"], load_input=False, load_output=False
        )
        return found[0] if found else None

    # -- work ----------------------------------------------------------------------------------------------------------

    async def work(self, attempt: Attempt, step: Step, *, name: str, concurrency: int, stop: asyncio.Event) -> None:
        """Launch DBOS under the file's lock."""
        await self._client()
        try:
            self._lock.acquire(timeout=1)  # `deep workers` holds it for a moment
        except Timeout:
            raise QueueLocked(
                f"{self._holder()} works on {self.path}, and a SQLite file takes one worker. "
                "Stop that one, or keep the sessions in postgresql://… for several"
            ) from None
        patience = 0
        try:
            self._worker.write_text(name, encoding="utf-8")
            await self._blame(step)
            await self._launch(attempt, step, concurrency)
            while not stop.is_set():
                await self._clean_up()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), CLEANUP)
            patience = 1_000_000  # the attempts end by themselves: the worker cancels late ones
        finally:
            await asyncio.to_thread(DBOS.destroy, destroy_registry=True, workflow_completion_timeout_sec=patience)
            self._worker.unlink(missing_ok=True)
            self._lock.release()

    async def _launch(self, attempt: Attempt, step: Step, concurrency: int) -> None:
        loop = asyncio.get_running_loop()

        @DBOS.workflow(name=WORKFLOW, max_recovery_attempts=None)
        async def resume(session_id: str) -> None:  # pyright: ignore[reportUnusedFunction] - DBOS calls it
            # DBOS runs this on a loop of its own; the agent and its connections belong to the worker's.
            job = self._run(attempt, step, session_id, DBOS.workflow_id or "")
            await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(job, loop))

        def launch() -> None:
            # Constant names: a worker takes over what an earlier one left, and another version's jobs too.
            config: DBOSConfig = {
                "name": NAME,
                "system_database_url": self._url,
                "executor_id": NAME,
                "application_version": "1",
                "log_level": "CRITICAL",
            }
            DBOS(config=config)
            DBOS.launch()
            DBOS.register_queue(
                NAME, worker_concurrency=concurrency, polling_interval_sec=POLL, on_conflict="always_update"
            )

        await asyncio.to_thread(launch)

    async def _run(self, attempt: Attempt, step: Step, session_id: str, workflow_id: str) -> None:
        if session_id in self._running:
            self._running[session_id] = True
            return
        self._running[session_id] = False
        try:
            failures = await self._begin(step, session_id, workflow_id)
            if failures.is_final:
                await self._put(session_id, failures=failures)
                return
            verdict: Verdict = await attempt(session_id)
            while isinstance(verdict, Done) and self._running[session_id]:
                self._running[session_id] = False
                verdict = await attempt(session_id)
            match verdict:
                case Done():
                    pass  # no await until the session leaves _running, or a wake-up could be lost here
                case Again():
                    await self._put(session_id, seconds=verdict.seconds, failures=failures)
                case Failed():
                    failures = failures.add(verdict.error, await step(session_id))
                    await self._put(session_id, seconds=failures.pause, failures=failures)
        finally:
            del self._running[session_id]

    async def _begin(self, step: Step, session_id: str, workflow_id: str) -> Failures:
        """Return the failures before this attempt, and note where the session is."""
        client = await self._client()
        (status,) = await client.list_workflows_async(workflow_ids=[workflow_id], load_input=False, load_output=False)
        failures = replace(_failures(status), step=await step(session_id))
        await client.update_workflow_attributes_async(workflow_id, asdict(failures))
        return failures

    async def _blame(self, step: Step) -> None:
        """Count the death of the last worker against the sessions that it ran."""
        client = await self._client()
        left = await client.list_workflows_async(status="PENDING", queue_name=NAME, load_input=False, load_output=False)
        lost = {status.workflow_id: (_failures(status), await step(_session(status))) for status in left}
        for workflow_id, failures in blame(lost).items():
            await client.update_workflow_attributes_async(workflow_id, asdict(failures))

    async def _clean_up(self) -> None:
        client = await self._client()
        ended = await client.list_workflows_async(
            status=["SUCCESS", "ERROR"], queue_name=NAME, load_input=False, load_output=False
        )
        if ended:
            await client.delete_workflows_async([status.workflow_id for status in ended])

    async def takeover(self) -> Sequence[str]:
        """Do nothing: the next worker of the file continues what a dead one left, when it starts."""
        return []

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def jobs(self) -> Sequence[Job]:
        """Read the workflows that have not ended."""
        client = await self._client()
        found = await client.list_workflows_async(
            status=["ENQUEUED", "DELAYED", "PENDING"], queue_name=[NAME, ASIDE], load_input=False, load_output=False
        )
        holder = self._holder() if self._is_locked() else None
        jobs: dict[str, Job] = {}
        for status in found:
            session_id = _session(status)
            job = _job(session_id, status, holder)
            known = jobs.get(session_id)
            if known is None or (known.state == "waiting" and job.state != "waiting"):
                jobs[session_id] = job
        return [*jobs.values()]

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the process that holds the lock."""
        if not await asyncio.to_thread(self._is_locked):
            return []
        sessions = [job.session_id for job in await self.jobs() if job.state == "running"]
        return [WorkerInfo(self._holder(), sessions, 0.0)]

    def _is_locked(self) -> bool:
        try:
            with FileLock(f"{self.path}.lock", timeout=0):
                return False
        except Timeout:
            return True

    def _holder(self) -> str:
        try:
            return self._worker.read_text(encoding="utf-8") or "another worker"
        except FileNotFoundError:
            return "another worker"

    async def aclose(self) -> None:
        """Close the client."""
        if self._opened is not None:
            await asyncio.to_thread(self._opened.destroy)
            self._opened = None


def _failures(status: WorkflowStatus) -> Failures:
    return Failures(**(status.attributes or {}))


def _session(status: WorkflowStatus) -> str:
    return status.workflow_id.rpartition("/")[0]


def _job(session_id: str, status: WorkflowStatus, holder: str | None) -> Job:
    failures = _failures(status)
    told = failures.total, failures.error
    if status.queue_name == ASIDE:
        return Job(session_id, "set aside", None, *told)
    if status.status == "PENDING":
        return Job(session_id, "running" if holder else "waiting", holder, *told)
    return Job(session_id, "waiting", None, *told)
