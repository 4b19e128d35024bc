"""Cost of storing sessions in SQLite: a turn, bytes, loading, and appends a second."""

from __future__ import annotations

import asyncio
import gc
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.measure import NOISE, Bench, Contender, Figure, Goal, lockstep, only
from benchmarks.rows.turn import SLICE

__all__ = ["child", "measure"]

WITHOUT = Contender("without a store", "stored:WITHOUT")
STORED = Contender("ours", "stored", floor=WITHOUT.name)
TURNS, ROUNDS, SETS = 50, 7, 3
LONG = 400
MESSAGES = 1_000


def measure(bench: Bench) -> list[Figure]:
    """Measure a turn beside the same agent's without a store; the rest beside fixed goals."""
    if len(bench.ours) > 1:
        return []
    taken = lockstep([WITHOUT, STORED], "turn", bench.rounds(ROUNDS), TURNS // SLICE, sets=SETS, turns=TURNS)
    goal = Goal(1.15, of="ratio", gate=True, margin=NOISE)
    turn = bench.figure(
        f"a stored turn, {TURNS} turns", "ms CPU", only(taken, "cpu"), goal, floor=WITHOUT.name, table=False
    )
    rest = lockstep([STORED], "stored", bench.rounds(3), 1)
    goals = {
        "stored bytes, ratio to the messages, 400 turns": ("", Goal(1.2, gate=True), 2),
        "resume at 1,000 messages": ("ms CPU", Goal(100, gate=True), 1),
        "resume at 1,000 messages after 2,000 that were compacted": ("ms CPU", Goal(100, gate=True), 1),
        "a second runner is refused": ("ms", Goal(100), 1),
        "appends a second": ("", None, 0),
    }
    figures = [
        bench.figure(name, unit, only(rest, name), goal, digits=digits) for name, (unit, goal, digits) in goals.items()
    ]
    return [turn, *figures]


def child(module: str, answer: Callable[[Any], None]) -> None:
    """Answer the figures of one process."""
    answer(None)
    while True:
        answer(asyncio.run(_figures()))


async def _figures() -> dict[str, float]:
    from deep_sessions import Commit, NewEntry, SessionBusy
    from deep_sessions.entries import messages_entry
    from deep_sessions.fold import fold
    from deep_sessions.journal import base_entry
    from deep_sessions.stores.sqlite import SqliteStore
    from pydantic_ai.messages import ModelMessagesTypeAdapter

    from benchmarks.contenders.pydantic_ai_contender import PROMPT, UNLIMITED, history
    from benchmarks.contenders.stored import build, make_runner
    from benchmarks.scripted import work_model
    from benchmarks.work import prepare

    out: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        prepare(root, LONG)
        store = SqliteStore(root / "sessions.db")
        runner = make_runner(build(work_model(LONG)), root, store)
        outcome = await runner.run("long", PROMPT, run_id="run", usage_limits=UNLIMITED)
        written = sum(len(entry.data) for entry in await store.entries("long", limit=10_000))
        plain = len(ModelMessagesTypeAdapter.dump_json([*outcome.messages]))
        out["stored bytes, ratio to the messages, 400 turns"] = written / plain

        async def seconds_to_load(session: str, before: int) -> float:
            lease = await store.acquire(session)
            past = history(MESSAGES)
            for at in range(0, before, 2):
                await store.commit(lease, Commit([messages_entry("", at, past[at % MESSAGES :][:2], {}, "r")]))
            if before:
                await store.commit(lease, Commit([base_entry(past[:2], {}, None, "r")]))
            for at in range(2 if before else 0, MESSAGES, 2):
                await store.commit(lease, Commit([messages_entry("", at, past[at : at + 2], {}, "r")]))
            gc.collect()  # what the commits left is not the load's
            began = time.process_time()
            assert len(fold(await store.load(session)).messages()) == MESSAGES
            return time.process_time() - began

        await seconds_to_load("warm", 0)
        out["resume at 1,000 messages"] = await seconds_to_load("plain", 0) * 1000
        compacted = await seconds_to_load("compacted", 2 * MESSAGES)
        out["resume at 1,000 messages after 2,000 that were compacted"] = compacted * 1000
        lease, count = await store.acquire("appends"), 2_000
        entry = NewEntry("messages", b"x" * 1_500, "r")
        began = time.perf_counter()
        for _ in range(count):
            await store.commit(lease, Commit([entry]))
        out["appends a second"] = count / (time.perf_counter() - began)
        other = SqliteStore(root / "sessions.db")
        await other.info("appends")
        began = time.perf_counter()
        try:
            await other.acquire("appends")
        except SessionBusy:
            out["a second runner is refused"] = (time.perf_counter() - began) * 1000
        await other.aclose()
        await store.aclose()
    return out
