"""The queue of sessions to resume: one table of jobs, one of workers, one of providers that are down.

A job is the id of a session. Its row says whether it waits, runs, or was set aside, and why. All of it is in the
database, so that a restart forgets nothing and every worker sees the same.

A worker that dies takes with it the knowledge of who killed it. Its sessions become suspects, and a suspect runs alone
in a process. Only a death alone counts against a session.
"""

# Statements are put together from constants of this module.
# ruff: noqa: S608

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from deep_sessions import this_process

from .database import Database, Row, Run
from .errors import QueueError, SessionSetAside
from .jobs import Again, Done, Failed, Job, Outage, Patience, Steps, Verdict, Waits, WorkerInfo
from .rows import AFRESH, LOST, TABLES, Statements, count, job_of, over, read_payload, wait, wait_for, write_payload

__all__ = ["Queue"]

logger = logging.getLogger(__name__)
T = TypeVar("T")


class Queue:
    """A queue of session ids. It delivers each at least once; the session's lease and ledger make that safe.

    A session waits in it at most once, and runs at most once, as far as the queue can see: a worker that was silent for
    too long may still run it. A wake-up that arrives while the session runs starts another attempt afterwards.

    Args:
        database: where the jobs are.
        silence: seconds without a sign of life after which a worker counts as dead.
    """

    def __init__(self, database: Database, *, silence: float = 10.0) -> None:
        self._database = database
        self.silence = silence
        self._names = {"jobs": database.jobs, "prefix": database.prefix, "serial": database.serial}
        self._has_tables = False

    async def _do(self, work: Callable[[Statements], T]) -> T:
        told: list[str] = []

        def transaction(run: Run) -> T:
            statements = Statements(run, self._names, self._database, told)
            if not self._has_tables:
                self._create(statements)
            return work(statements)

        def tell(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                self._has_tables = True
                for line in told:
                    logger.warning(line)

        doing = asyncio.ensure_future(self._database.do(transaction))
        doing.add_done_callback(tell)
        return await asyncio.shield(doing)  # who is cancelled meanwhile must not keep from saying what was done

    def _create(self, run: Statements) -> None:
        if not self._database.has_table(run.run, f"{self._database.prefix}clock"):
            for statement in TABLES:
                run(statement)
            run("insert into {prefix}clock values (:boot)", boot=self._database.boot())
        (row,) = run("select boot from {prefix}clock")
        if row["boot"] != self._database.boot():
            # Its clock began anew: what waited for a time is due.
            run("update {prefix}clock set boot = :boot", boot=self._database.boot())
            run("update {jobs} set asked = 0, due = 0, since = null")
            run("update {prefix}outages set since = now(), due = 0")
            run("update {prefix}workers set seen = 0")
            run("delete from {prefix}returns")

    # -- for all -------------------------------------------------------------------------------------------------------

    async def enqueue(self, session_id: str) -> None:
        """Let a worker resume the session as soon as one is free.

        Raises:
            SessionSetAside: too many attempts failed; `release` lets it run again.
            QueueError: the database cannot be reached.
        """

        def put(run: Statements) -> Row:
            (row,) = run(
                "insert into {jobs} (inputs, asked, due) values (:inputs, now(), 0) on conflict (inputs) do update set "
                "again = 1, due = case when {jobs}.failures = 0 then 0 else {jobs}.due end returning *",
                inputs=write_payload(session_id),
            )
            return row

        row = await self._do(put)
        if row["place"] == "aside":
            raise SessionSetAside(
                f"session {session_id} is set aside after {row['total']} failures, the last one: {row['error']}. "
                f"Fix the cause, then type: deep workers --release {session_id}"
            )

    async def release(self, session_id: str) -> None:
        """Forget the failures of a session that was set aside, and enqueue it.

        Raises:
            QueueError: it is not set aside.
        """

        def release(run: Statements) -> Sequence[Row]:
            inputs = write_payload(session_id)
            rows = run("select 1 from {jobs} where inputs = :inputs and place = 'aside'", inputs=inputs)
            if rows:
                wait(run, inputs, **AFRESH)
            return rows

        if not await self._do(release):
            raise QueueError(f"session {session_id} is not set aside; deep workers lists those that are")

    async def jobs(self) -> Sequence[Job]:
        """Return every session in the queue."""

        def read(run: Statements) -> Sequence[Row]:
            return run(
                "select {jobs}.*, {jobs}.due - now() as pause, {prefix}workers.name as name, "
                "{prefix}outages.due - now() as probe_in from {jobs} "
                "left join {prefix}workers on {prefix}workers.number = {jobs}.worker "
                "left join {prefix}outages on {prefix}outages.provider = {jobs}.provider "
                "order by {jobs}.asked"
            )

        return [job_of(row) for row in await self._do(read)]

    async def workers(self) -> Sequence[WorkerInfo]:
        """Return the workers that live."""

        def read(run: Statements) -> Sequence[tuple[Row, bool]]:
            rows = run("select *, now() - seen as silent from {prefix}workers order by name")
            return [(row, self._is_gone(run, row)) for row in rows]

        running: dict[str | None, list[str]] = {}
        for job in await self.jobs():
            if job.state == "running":
                running.setdefault(job.worker, []).append(job.session_id)
        found = [row for row, is_gone in await self._do(read) if not is_gone]
        return [WorkerInfo(row["name"], running.get(row["name"], []), row["silent"]) for row in found]

    async def outages(self) -> Sequence[Outage]:
        """Return the providers that are down."""
        rows = await self._do(
            lambda run: run("select *, now() - since as seconds, due - now() as next_try from {prefix}outages")
        )
        return [Outage(row["provider"], row["reason"], row["seconds"], max(0.0, row["next_try"])) for row in rows]

    async def aclose(self) -> None:
        """Close the connection."""
        await self._database.aclose()

    # -- for workers ---------------------------------------------------------------------------------------------------

    async def register(self, name: str, *, guard: int | None = None) -> int:
        """Return the number of a new worker.

        Args:
            name: for others to see.
            guard: the number of the worker that started this one for suspects. It says who killed it.
        """

        def register(run: Statements) -> int:
            holder = this_process()
            process = int(holder.rpartition(":")[0].rpartition(":")[2])
            (row,) = run(
                "insert into {prefix}workers (name, holder, process, guard, seen) "
                "values (:name, :holder, :process, :guard, now()) returning number",
                name=name,
                holder=holder,
                process=process,
                guard=guard,
            )
            self._database.hold(run.run, row["number"])
            return row["number"]

        return await self._do(register)

    async def leave(self, worker: int) -> None:
        """Forget a worker that ends, and hand back what it still has."""

        def leave(run: Statements) -> None:
            run(
                "update {jobs} set place = 'waiting', worker = null, early = 1, alone = 0, probe = 0 "
                "where worker = :worker",
                worker=worker,
            )
            run("delete from {prefix}workers where number = :worker", worker=worker)

        await self._do(leave)

    async def beat(self, worker: int, sessions: Sequence[str]) -> bool:
        """Give a sign of life; return False if others have taken this worker for dead.

        Args:
            worker: the worker.
            sessions: what it runs. Whatever else is said to run in it waits again: an answer of the database was lost.
        """

        def beat(run: Statements) -> bool:
            self._database.hold(run.run, worker)
            found = run(
                "update {prefix}workers set seen = now() where number = :worker returning number", worker=worker
            )
            for row in run("select inputs from {jobs} where worker = :worker", worker=worker):
                if read_payload(row["inputs"]) not in sessions:
                    run(
                        "update {jobs} set place = 'waiting', worker = null, alone = 0 where inputs = :inputs",
                        inputs=row["inputs"],
                    )
            return bool(found)

        return await self._do(beat)

    async def claim(
        self, worker: int, limit: int, *, suspects: bool = False, alone: bool = False, provider: str = ""
    ) -> Mapping[str, bool]:
        """Return sessions for a worker to run -> whether the session finds out that its provider is back.

        Args:
            worker: who runs them.
            limit: the most to return.
            suspects: whether to return suspects, or sessions that are none.
            alone: whether nothing else runs in the worker's process.
            provider: the provider of sessions that have not met an outage yet.
        """
        about = {"suspect": int(suspects), "mine": provider}
        ready = (
            "place = 'waiting' and due <= now() and suspect = :suspect and coalesce(nullif({jobs}.provider, ''), :mine)"
        )

        def claim(run: Statements) -> Mapping[str, bool]:
            probes = run(
                "update {prefix}outages set due = now() + pause where due <= now() and exists "
                f"(select 1 from {{jobs}} where {ready} = {{prefix}}outages.provider) returning provider",
                **about,
            )
            take = (
                "update {jobs} set place = 'running', worker = :worker, again = 0, early = 1, alone = :alone, "
                "claimed = now(), "
            )
            which = "order by early desc, asked limit :limit {skip}) returning inputs"
            about_worker = {"worker": worker, "alone": int(alone), **about}
            rows: list[tuple[Row, bool]] = []
            for probe in probes[:limit]:
                found = run(
                    f"{take} probe = 1 where inputs in (select inputs from {{jobs}} where {ready} = :down {which}",
                    **about_worker,
                    down=probe["provider"],
                    limit=1,
                )
                rows += [(row, True) for row in found]
            if len(rows) < limit:
                found = run(
                    f"{take} probe = 0 where inputs in (select inputs from {{jobs}} where {ready} "
                    f"not in (select provider from {{prefix}}outages) {which}",
                    **about_worker,
                    limit=limit - len(rows),
                )
                rows += [(row, False) for row in found]
            sessions: dict[str, bool] = {}
            for row, is_probe in rows:
                session_id = read_payload(row["inputs"])
                if session_id is None:
                    run("delete from {jobs} where inputs = :inputs", inputs=row["inputs"])
                    run.told.append(f"dropped a job whose payload is no id of a session: {repr(row['inputs'])[:80]}")
                else:
                    sessions[session_id] = is_probe
            return sessions

        return await self._do(claim)

    async def has_suspects(self, provider: str = "") -> bool:
        """Whether a suspect may run now."""
        return bool(
            await self._do(
                lambda run: run(
                    "select 1 from {jobs} where place = 'waiting' and suspect = 1 and due <= now() and "
                    "coalesce(nullif(provider, ''), :mine) not in "
                    "(select provider from {prefix}outages where due > now()) limit 1",
                    mine=provider,
                )
            )
        )

    async def accompany(self, worker: int) -> None:
        """Note that the sessions of a worker are not alone in its process any more."""
        await self._do(lambda run: run("update {jobs} set alone = 0 where worker = :worker", worker=worker))

    async def settle(
        self, worker: int, session_id: str, verdict: Verdict, *, step: int | None = None, patience: Patience
    ) -> None:
        """Write how an attempt ended. Does nothing if another worker has the session meanwhile.

        Args:
            worker: who ran it.
            session_id: the session.
            verdict: how it ended.
            step: where the session is now.
            patience: how long it waits for its provider.
        """

        def settle(run: Statements) -> None:
            inputs = write_payload(session_id)
            rows = run(
                "select * from {jobs} where inputs = :inputs and worker = :worker and place = 'running'",
                inputs=inputs,
                worker=worker,
            )
            if not rows:
                return
            row = rows[0]
            if row["probe"] and isinstance(verdict, Done | Failed):
                over(run, row["provider"])
            match verdict:
                case Done() if not row["again"]:
                    run("delete from {jobs} where inputs = :inputs", inputs=inputs)
                case Done():
                    wait(run, inputs, **AFRESH)
                case Again():
                    wait(run, inputs, verdict.seconds)
                case Failed():
                    count(run, row, verdict.error, step)
                case Waits():
                    wait_for(run, row, verdict, step, patience)

        await self._do(settle)

    async def answered(self, session_id: str) -> None:
        """Note that the provider of a probe has answered: what waits for it may run."""

        def answered(run: Statements) -> None:
            inputs = write_payload(session_id)
            for row in run("select * from {jobs} where inputs = :inputs and probe = 1", inputs=inputs):
                run("update {jobs} set probe = 0 where inputs = :inputs", inputs=inputs)
                over(run, row["provider"])

        await self._do(answered)

    # -- deaths --------------------------------------------------------------------------------------------------------

    async def lost(self, worker: int) -> tuple[Sequence[str], Sequence[str]]:
        """Return the sessions of dead and silent workers that ran alone, and all of them. For `takeover`.

        What runs in a process that another worker guards is left to that worker: it sees the process end.

        Args:
            worker: who asks.
        """

        def lost(run: Statements) -> tuple[Sequence[str], Sequence[str]]:
            gone = [row["number"] for row in self._gone(run, worker)]
            rows = [row for row in run("select * from {jobs} where place = 'running'") if row["worker"] in gone]
            names = [(row, read_payload(row["inputs"]) or "") for row in rows]
            return [name for row, name in names if row["alone"]], [name for _, name in names]

        return await self._do(lost)

    async def takeover(self, worker: int, steps: Steps | None = None) -> Sequence[str]:
        """Make suspects of the sessions of dead and silent workers; return them.

        Args:
            worker: who does this.
            steps: where the sessions are that ran alone.
        """

        def take(run: Statements) -> Sequence[str]:
            taken: list[str] = []
            for gone in self._gone(run, worker):
                number = gone["number"]
                if run("delete from {prefix}workers where number = :number returning number", number=number):
                    # Without a guard, that it ran alone is all the evidence there is.
                    taken += self._suspect(run, number, LOST, steps or {}, counts=gone["guard"] is None)
            return taken

        return await self._do(take)

    async def died(self, guard: int, process: int, error: str, steps: Steps | None = None) -> Sequence[str]:
        """Count the death of a process for suspects, which its guard has seen; return the session that ran in it.

        Args:
            guard: the worker that started it.
            process: its number.
            error: how it died, in one line.
            steps: where the session is.
        """

        def died(run: Statements) -> Sequence[str]:
            taken: list[str] = []
            for row in run(
                "delete from {prefix}workers where guard = :guard and process = :process returning number",
                guard=guard,
                process=process,
            ):
                taken += self._suspect(run, row["number"], error, steps or {}, counts=True)
            return taken

        return await self._do(died)

    async def guarded(self, guard: int) -> Mapping[int, tuple[float, Sequence[str]]]:
        """Return the processes that a worker has started for suspects -> seconds of silence, and their sessions."""

        def guarded(run: Statements) -> Mapping[int, tuple[float, Sequence[str]]]:
            rows = run("select *, now() - seen as silent from {prefix}workers where guard = :guard", guard=guard)
            sessions = {
                row["number"]: run("select inputs from {jobs} where worker = :w", w=row["number"]) for row in rows
            }
            return {
                row["process"]: (row["silent"], [read_payload(job["inputs"]) or "" for job in sessions[row["number"]]])
                for row in rows
            }

        return await self._do(guarded)

    def _suspect(self, run: Statements, worker: int, error: str, steps: Steps, *, counts: bool) -> Sequence[str]:
        taken: list[str] = []
        for row in run("select * from {jobs} where worker = :worker", worker=worker):
            session_id = read_payload(row["inputs"]) or ""
            taken.append(session_id)
            if counts and row["alone"]:
                count(run, row, error, steps.get(session_id), suspect=1)
            else:
                wait(run, row["inputs"], suspect=1, error=row["error"] or LOST)
        return taken

    def _gone(self, run: Statements, worker: int) -> Sequence[Row]:
        rows = run("select *, now() - seen as silent from {prefix}workers where number <> :worker", worker=worker)
        gone = {row["number"]: row for row in rows if self._is_gone(run, row)}
        lives = {worker, *(row["number"] for row in rows)} - {*gone}
        return [row for row in gone.values() if row["guard"] not in lives]

    def _is_gone(self, run: Statements, row: Row) -> bool:
        return row["silent"] > self.silence or self._database.is_dead(run.run, row)
