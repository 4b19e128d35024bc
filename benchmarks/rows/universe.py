"""A universe of 10,000 tools: selecting and rendering; and 792 calls in one reply."""

from __future__ import annotations

import asyncio
import gc
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from benchmarks.measure import Bench, Contender, Figure, Goal, lockstep, only

__all__ = ["child", "measure"]

MANY, FEW = 10_000, 1_000
CALLS, CAP = 792, 8  # the fan-out of pydantic-ai#6884
EXPRESSION = "finance & ~internal | ^tool_99"
SELECT = f"{MANY:,} tools, select by {EXPRESSION.count('&') + EXPRESSION.count('|') + 1} terms"
RENDER = f"{MANY:,} tools, render for OpenAI"
LINEAR = f"{MANY:,} tools, render a tool, ratio to {FEW:,} tools"
DISPATCH = f"{CALLS} calls in one reply, {CAP} at once"
PEAK = f"{CALLS} calls in one reply, most at once"
MEMORY = f"{CALLS} calls in one reply, most memory of a call, ratio to {CALLS // 8} calls"


def measure(bench: Bench) -> list[Figure]:
    """Beside fixed goals: no peer and no floor has such a collection."""
    if len(bench.ours) > 1:
        return []
    taken = lockstep([Contender("ours", "ours")], "universe", bench.rounds(5), 1)
    goals = {
        SELECT: ("ms CPU", Goal(20, gate=True), 1),
        RENDER: ("ms CPU", None, 0),
        LINEAR: ("", Goal(1.5, gate=True), 2),
        DISPATCH: ("ms", None, 0),
        PEAK: ("calls", Goal(CAP, gate=True), 0),
        MEMORY: ("", Goal(1.5, gate=True), 2),
    }
    return [
        bench.figure(name, unit, only(taken, name), goal, digits=digits) for name, (unit, goal, digits) in goals.items()
    ]


def child(module: str, answer: Callable[[Any], None]) -> None:
    """Answer the figures of one process."""
    from deep_universe import Universe

    def read_record(key: str, limit: int = 10) -> str:
        """Read a record.

        Args:
            key: of the record.
            limit: of its lines.
        """
        return key

    many = Universe()
    for number in range(MANY):
        tags = {"finance" if number % 3 else "other", "internal" if number % 5 else "public"}
        many.register(read_record, name=f"tool_{number}", tags=tags)
    few = Universe()
    for tool in many.tools[:FEW]:
        few.register_tool(tool)
    answer(None)
    while True:
        gc.collect()
        out: dict[str, float] = {SELECT: _milliseconds(lambda: many[EXPRESSION])}
        out[RENDER] = _milliseconds(lambda: many["^tool_"].render("openai"))
        out[LINEAR] = out[RENDER] / MANY / (_milliseconds(lambda: few["^tool_"].render("openai")) / FEW)
        answer(out | asyncio.run(_dispatch()))


def _milliseconds(work: Callable[[], object]) -> float:
    taken: list[float] = []
    for _ in range(5):
        began = time.process_time()  # nothing waits, so that other programs of the machine do not count
        work()
        taken.append(time.process_time() - began)
    return min(taken) * 1000


async def _dispatch() -> dict[str, float]:
    from deep_universe import ToolCall, Universe

    universe, running, most = Universe(), 0, 0

    @universe.tool
    async def act(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return number

    def reply(count: int) -> Any:
        calls = [ToolCall(f"call_{number}", "act", {"number": number}) for number in range(count)]
        return universe.driver("openai").encode_calls(calls)

    async def run(count: int) -> float:
        response = reply(count)
        began = time.perf_counter()
        results = await universe.dispatch(response, driver="openai", max_parallel=CAP)
        taken = time.perf_counter() - began
        assert [result.result for result in results] == list(range(count))
        return taken * 1000

    async def memory(count: int) -> float:
        gc.collect()
        tracemalloc.start()
        await run(count)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak / count

    taken = await run(CALLS)
    return {DISPATCH: taken, PEAK: most, MEMORY: await memory(CALLS) / await memory(CALLS // 8)}
