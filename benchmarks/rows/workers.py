"""Sessions that 1, 2 and 4 workers finish a second, on PostgreSQL. Without a server, nothing is measured."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from benchmarks.measure import Bench, Child, Figure, ready, scratch
from tests.postgresql import cluster, programs

__all__ = ["child", "measure"]

WORKERS, ROUNDS = (1, 2, 4), 3
SESSIONS, STEPS = 60, 10


def measure(bench: Bench) -> list[Figure]:
    """Measure sessions of ten steps, each a response of the model and a tool that changes something."""
    if len(bench.ours) > 1 or programs() is None:
        return []
    note = (
        f"{SESSIONS} sessions of {STEPS} steps on PostgreSQL. The model takes no time, so the processors bound it: "
        "each worker takes one, and the server its share on the same machine"
    )
    figures: list[Figure] = []
    with cluster() as server:
        for workers in WORKERS:
            rates = [_rate(bench, server.create_database(), workers) for _ in range(bench.rounds(ROUNDS))]
            name = f"sessions finished by {workers} worker{'s' * (workers > 1)}"
            figures.append(bench.figure(name, "sessions/s", [{"ours": rate} for rate in rates], note=note))
    return figures


def _rate(bench: Bench, url: str, workers: int) -> float:
    with scratch() as home, ExitStack() as stack:
        children = [stack.enter_context(Child(bench.ours[0], "workers", home, url=url)) for _ in range(workers)]
        ready(*children)
        asyncio.run(_fill(url))
        for one in children:
            one.begin()
        answers = [one.answer() for one in children]
    assert sum(answer["finished"] for answer in answers) == SESSIONS
    return SESSIONS / (max(answer["ended"] for answer in answers) - min(answer["began"] for answer in answers))


async def _fill(url: str) -> None:
    """Enqueue sessions whose run has begun."""
    from deep_durable import open_queue
    from deep_sessions import Commit, open_store
    from deep_sessions.entries import encode

    store, queue = open_store(url), open_queue(url)
    started = encode("run_started", {"digest": "", "attempt": 1, "prompt": "go"}, "r1")
    for number in range(SESSIONS):
        lease = await store.acquire(f"s{number}")
        await store.commit(lease, Commit([started], status="running"))
        await store.release(lease)
        await queue.enqueue(f"s{number}")
    await queue.aclose()
    await store.aclose()


def child(module: str, answer: Callable[[Any], None], *, url: str) -> None:
    """Work until the queue is empty."""
    asyncio.run(_work(answer, url))


async def _work(answer: Callable[[Any], None], url: str) -> None:
    from deep_durable import Worker, open_queue
    from deep_sessions import Runner, open_store, session_capabilities
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    from deep_core import create_deep_agent, default_kernel

    def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        n = sum(isinstance(message, ModelResponse) for message in messages)
        return ModelResponse([ToolCallPart("note", {"n": n}) if n < STEPS else TextPart("done")])

    def note(n: int) -> str:
        return f"noted {n}"

    agent = create_deep_agent(
        FunctionModel(respond), backend="memory", tools=[note], capabilities=session_capabilities()
    )
    store, queue = open_store(url), open_queue(url)
    runner = Runner(agent, store, kernel=default_kernel())
    ended: list[float] = []

    async def resume(session_id: str) -> None:
        outcome = await runner.resume(session_id)
        assert outcome.status == "completed", outcome.error
        ended.append(time.time())

    await runner.run(f"warm {os.getpid()}", "go", run_id="r1")
    answer(None)
    began = time.time()
    worker = Worker(resume, queue, store=store)
    work = asyncio.ensure_future(worker.run())
    while await queue.jobs():
        await asyncio.sleep(0.1)
    worker.stop()
    await work
    answer({"began": began, "ended": max(ended, default=began), "finished": len(ended)})
