"""200 queued sessions through an outage of their provider. By name only: it lasts as long as the outage."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

from benchmarks.measure import Bench, Figure, scratch
from plugins.durable.tests.deep_workers import Provider, Workers

__all__ = ["measure"]

SESSIONS, WORKERS, DOWN = 200, 4, 30.0


def measure(bench: Bench) -> list[Figure]:
    """Measure the time from the provider's return to the end of the last session."""
    if len(bench.ours) > 1:
        return []
    os.environ.setdefault("OPENAI_API_KEY", "sk-stub")
    with scratch() as home:
        seconds = asyncio.run(_through(Path(home)))
    note = f"{SESSIONS} sessions on SQLite, {WORKERS} workers, {DOWN:.0f} s of 503; probes after 10, 30, 70 s …"
    return [bench.figure("from a provider's return to the last session", "s", [{"ours": seconds}], note=note)]


async def _through(home: Path) -> float:
    from deep_durable import enqueue, open_queue
    from deep_sessions import open_store

    url, provider = f"sqlite:///{home}/s.db", Provider()
    provider.status = 503
    store, queue = open_store(url), open_queue(url)
    for number in range(SESSIONS):
        await enqueue(store, f"s{number}", "say it")
    plugin = Path(__file__).parents[2] / "plugins/durable/tests/slow_work.py"
    with provider.serving(home) as config, Workers(url, home, "--config", config, "-p", plugin).running(WORKERS):
        while not provider.asked:
            await asyncio.sleep(0.1)
        await asyncio.sleep(DOWN)
        provider.status, back = 200, time.monotonic()
        while await queue.jobs():
            await asyncio.sleep(0.1)
        seconds = time.monotonic() - back
    await queue.aclose()
    await store.aclose()
    return seconds
