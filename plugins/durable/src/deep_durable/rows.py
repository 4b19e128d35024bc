"""The rows of a queue: its tables, the payload of a job, and what an ended attempt changes."""

# Statements are put together from constants of this module.
# ruff: noqa: S608

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .database import Database, Row, Run
from .jobs import Job, Patience, Waits

__all__ = [
    "AFRESH",
    "LOST",
    "TABLES",
    "Statements",
    "count",
    "job_of",
    "over",
    "read_payload",
    "wait",
    "wait_for",
    "write_payload",
]

_ID = re.compile(r"[^\0\ud800-\udfff]{1,500}")
"""An id that every store can hold."""
MOST_CHARS = 6_100
"""Of a payload: 500 characters, each written as two escapes."""
ATTEMPTS = 3
"""How many attempts in a row may fail, or kill their process alone, at one step before a session is set aside."""
MOST = 10
"""How many in a row, whatever the steps."""
PAUSES = (1.0, 10.0)
"""Seconds after the first failure, and after each further one."""
LOST = "its worker died"
AFRESH: Mapping[str, Any] = {
    **dict.fromkeys(("failures", "total", "suspect", "refusals"), 0),
    **dict.fromkeys(("error", "provider"), ""),
    **dict.fromkeys(("step", "since")),
}
"""The columns of a session whose failures are forgotten."""
TABLES = (
    """create table {jobs} (
        inputs text not null primary key, place text not null default 'waiting', asked float8 not null,
        due float8 not null, early int not null default 0, again int not null default 0, worker int,
        suspect int not null default 0, alone int not null default 0, probe int not null default 0,
        failures int not null default 0, total int not null default 0, step bigint, error text not null default '',
        provider text not null default '', refusals int not null default 0, since float8, claimed float8)""",
    """create table {prefix}workers (
        number {serial}, name text not null, holder text not null, process int not null, guard int,
        seen float8 not null)""",
    """create table {prefix}outages (
        provider text primary key, since float8 not null, due float8 not null, pause float8 not null,
        reason text not null)""",
    "create table {prefix}returns (provider text primary key, at float8 not null)",
    "create table {prefix}clock (boot text not null)",
)
"""`inputs` is the payload: the session's id as JSON. `early`: it ran before, and goes first. `again`: a wake-up arrived
while it ran. `alone`: no other session runs in its process. `probe`: it finds out whether its provider is back. `step`:
where it was at its last failure or refusal; `refusals`: how many there were at that step, since `since`. `claimed`:
when its last attempt began. `returns`: when each provider was back from its last outage."""


@dataclass
class Statements:
    """Runs statements with the names of one database."""

    run: Run
    names: Mapping[str, str]
    database: Database
    told: list[str]
    """What to log once the transaction is committed."""

    def __call__(self, statement: str, /, **values: Any) -> Sequence[Row]:
        """Run a statement; return its rows."""
        return self.run(statement.format(**self.names, skip=self.database.skip), **values)


def wait(run: Statements, inputs: str, seconds: float = 0.0, **columns: Any) -> None:
    """Let a session wait: before those that have not run yet, behind those that have, so that none is always first.

    A wake-up that arrived meanwhile ends the pause.
    """
    more = "".join(f", {name} = :{name}" for name in columns)
    run(
        "update {jobs} set place = 'waiting', worker = null, early = 1, alone = 0, probe = 0, again = 0, "
        f"asked = now(), due = case when again = 1 then 0 else now() + :seconds end{more} where inputs = :inputs",
        inputs=inputs,
        seconds=seconds,
        **columns,
    )


def count(run: Statements, row: Row, error: str, step: int | None, **columns: Any) -> None:
    """Count a failure of a session that is at a step now."""
    took_step = step is not None and row["step"] is not None and step != row["step"]
    failures, total = (0 if took_step else row["failures"]) + 1, row["total"] + 1
    wait(
        run,
        row["inputs"],
        PAUSES[min(failures, len(PAUSES)) - 1],
        failures=failures,
        total=total,
        step=step,
        error=error,
        **columns,
    )
    if failures >= ATTEMPTS or total >= MOST:
        _set_aside(run, row["inputs"])


def _set_aside(run: Statements, inputs: str) -> None:
    (row,) = run("update {jobs} set place = 'aside' where inputs = :inputs returning *", inputs=inputs)
    session_id = read_payload(inputs)
    run.told.append(f"session {session_id} is set aside: {row['error']}; deep workers --release {session_id}")


def wait_for(run: Statements, row: Row, verdict: Waits, step: int | None, patience: Patience) -> None:
    """Let a session wait for its provider, and the provider for its next probe.

    A session that is refused again and again, while others are answered, waits longer and longer by itself.
    """
    took_step = step is not None and row["step"] is not None and step != row["step"]
    refusals = 1 if took_step else row["refusals"] + 1
    wait(
        run,
        row["inputs"],
        0.0 if refusals == 1 else min(patience.most, patience.first * 2.0 ** min(refusals - 2, 30)),
        error=verdict.reason,
        provider=verdict.provider,
        refusals=refusals,
        step=row["step"] if step is None else step,
        failures=0 if took_step else row["failures"],
        since=None if took_step else row["since"],
    )
    (waited,) = run(
        "update {jobs} set since = coalesce(since, now()) where inputs = :inputs returning now() - since as seconds",
        inputs=row["inputs"],
    )
    _note_outage(run, row, verdict, patience)
    if waited["seconds"] > patience.total:
        _set_aside(run, row["inputs"])


def _note_outage(run: Statements, row: Row, verdict: Waits, patience: Patience) -> None:
    provider, is_probe = verdict.provider, bool(row["probe"])
    # An attempt that began before the provider was back may have been refused before: it runs again, and finds out.
    began = run(
        "insert into {prefix}outages select :provider, now(), now() + :seconds, :pause, :reason where not exists "
        "(select 1 from {prefix}returns where provider = :provider and at > :claimed) "
        "on conflict do nothing returning provider",
        provider=provider,
        claimed=row["claimed"],
        seconds=max(patience.first, verdict.seconds),
        pause=patience.first,
        reason=verdict.reason,
    )
    if began:
        run.told.append(f"{provider} is down, and its sessions wait: {verdict.reason}")
        return
    # What is no probe was sent before the outage was known: it only says how long the provider wants to be left alone.
    for known in run("select * from {prefix}outages where provider = :provider", provider=provider):
        pause = min(known["pause"] * 2.0, patience.most) if is_probe else known["pause"]
        run(
            "update {prefix}outages set pause = :pause, reason = :reason, "
            "due = case when due < now() + :seconds then now() + :seconds else due end where provider = :provider",
            provider=provider,
            reason=verdict.reason,
            pause=pause,
            seconds=max(pause, verdict.seconds) if is_probe else verdict.seconds,
        )


def over(run: Statements, provider: str) -> None:
    """Let the sessions run that wait for a provider."""
    for row in run(
        "delete from {prefix}outages where provider = :provider returning now() - since as seconds", provider=provider
    ):
        run("update {jobs} set provider = '', error = '' where provider = :provider", provider=provider)
        run(
            "insert into {prefix}returns values (:provider, now()) on conflict (provider) do update set at = now()",
            provider=provider,
        )
        run.told.append(f"{provider} answers again, after {row['seconds']:.0f} s")


def write_payload(session_id: str) -> str:
    """Return the payload of a session's job."""
    return json.dumps(session_id)


def read_payload(inputs: object) -> str | None:
    """Return the session of a payload; None for whatever else is written there."""
    if not isinstance(inputs, str) or len(inputs) > MOST_CHARS:
        return None
    try:
        session_id = json.loads(inputs)
    except (ValueError, RecursionError):
        return None
    if not isinstance(session_id, str) or _ID.fullmatch(session_id) is None:
        return None
    return session_id if write_payload(session_id) == inputs else None


def job_of(row: Row) -> Job:
    """Return a row as lists show it."""
    waits = row["probe_in"] if row["provider"] else row["pause"]
    return Job(
        read_payload(row["inputs"]) or repr(row["inputs"])[:80],
        "set aside" if row["place"] == "aside" else row["place"],
        (row["name"] or "a worker that died") if row["place"] == "running" else None,
        row["total"],
        row["error"],
        bool(row["suspect"]),
        row["provider"],
        waits if row["place"] == "waiting" and waits is not None and waits > 0 else None,
    )
