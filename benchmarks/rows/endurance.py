"""Memory of one process: 1,000 sessions that are open at once, and 5,000 turns. By name only: it takes minutes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable

from benchmarks.measure import Bench, Figure, counted, only
from benchmarks.rows.memory import resident

__all__ = ["child", "measure"]

SESSIONS, TURNS, WARM = 1_000, 5_000, 500
EACH = TURNS // SESSIONS
"""Turns of a session, one after the other: what is loaded has then always as long a history."""


def measure(bench: Bench) -> list[Figure]:
    """Measure what an open session takes, and how resident memory grows after the first turns."""
    if len(bench.ours) > 1:
        return []
    taken = counted(bench.own, "endurance", 1)
    note = f"{SESSIONS:,} sessions in memory workspaces, {TURNS:,} turns in one process; from turn {WARM} to the last"
    return [
        bench.figure("growth of memory in 1,000 turns", "MB", only(taken, "growth"), digits=2, note=note),
        bench.figure(
            f"one of {SESSIONS:,} stored sessions, open",
            "KB",
            only(taken, "open"),
            digits=0,
            note="loaded in one process after a turn, with a workspace in memory",
        ),
    ]


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Run the turns of one session after the other; then one of each, and keep them all."""
    kept = grown(SESSIONS, keep=SESSIONS, warm=1, each=1)
    answer({"growth": asyncio.run(grown()), "open": asyncio.run(kept)})


async def grown(turns: int = TURNS, *, keep: int = 128, warm: int = WARM, each: int = EACH) -> float:
    """Return the growth in MB for each 1,000 turns after the first ones.

    Args:
        turns: how many.
        keep: how many sessions stay loaded.
        warm: after how many turns it begins to count.
        each: turns of a session.
    """
    from deep_sessions import Runner, open_store, session_capabilities
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from deep_core import create_deep_agent, default_kernel

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse([TextPart("the tide is high")])

    agent = create_deep_agent(FunctionModel(respond), backend="memory", capabilities=session_capabilities())
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(f"sqlite:///{folder}/sessions.db")
        runner = Runner(agent, store, kernel=default_kernel(), keep=keep)
        before, first = 0.0, min(warm, turns // 2)
        for turn in range(turns):
            if turn == first:
                before = resident()
            await runner.run(f"s{turn // each}", "When is high water?", run_id=f"r{turn}")
        grew = resident() - before
        await store.aclose()
    return grew / (turns - first) * 1000
