"""CPU time of a run whose requests are sent again if they fail, beside one whose are not. By name only."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from statistics import median

from benchmarks.measure import Bench, Figure, counted, only

__all__ = ["child", "measure"]

STEPS, RUNS, ROUNDS = 10, 10, 25


def measure(bench: Bench) -> list[Figure]:
    """Measure runs of ten steps that answer at once: with the defaults, and with retries off."""
    if len(bench.ours) > 1:
        return []
    taken = counted(bench.own, "retries", bench.rounds(3))
    note = f"a run of {STEPS} steps; the median of {ROUNDS} rounds in turns"
    return [bench.figure("retries on, beside retries off", "ratio", only(taken, "off"), digits=3, note=note)]


def child(module: str, answer: Callable[[dict[str, float]], None]) -> None:
    """Run both in turns."""
    answer(asyncio.run(_ratios()))


async def _ratios() -> dict[str, float]:
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from deep_core import Kernel, create_default_deps

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        n = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse([ToolCallPart("note", {"n": n}) if n < STEPS else TextPart("done")])

    async def note(n: int) -> str:
        return f"noted {n}"

    async def seconds(kernel: Kernel) -> float:
        agent, deps = agents[kernel], create_default_deps(kernel=kernel)
        gc.collect()
        began = time.process_time()
        for _ in range(RUNS):
            await agent.run("go", deps=deps)
        return time.process_time() - began

    off = {"agent": {"model": {"retry": {"max_attempts": 1}}}}
    kernels = (Kernel(read_config=False), Kernel(config=off, read_config=False))
    agents = {kernel: kernel.create_agent(FunctionModel(respond), backend="memory", tools=[note]) for kernel in kernels}
    for kernel in kernels:
        await seconds(kernel)
    rounds = [[await seconds(kernel) for kernel in kernels[:: 1 if at % 2 else -1]] for at in range(ROUNDS)]
    taken = [each if at % 2 else each[::-1] for at, each in enumerate(rounds)]
    for kernel in kernels:
        kernel.close()
    return {"off": median(on / without for on, without in taken)}
