"""How fast the services of `examples/cluster` take a message. By name only: it needs a PostgreSQL and a minute."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from statistics import median, quantiles

from benchmarks.measure import Bench, Figure, Goal
from tests.cluster import Clients, Processes, World
from tests.postgresql import cluster, programs

__all__ = ["measure"]

SERVICES, WORKERS, SESSIONS, RATE, MODEL_SECONDS = 4, 8, 300, 4, 1.0


def measure(bench: Bench) -> list[Figure]:
    """Measure the answer to a message, which is in the store and in the queue then, while workers run the sessions."""
    if len(bench.ours) > 1 or programs() is None:
        return []
    with cluster() as server, tempfile.TemporaryDirectory() as folder, World(MODEL_SECONDS).serving() as world:
        processes = Processes(server.create_database(), Path(folder), world)
        with processes.running(SERVICES, WORKERS):
            clients = Clients(processes.addresses)
            asyncio.run(_load(clients))
    ms = [seconds * 1000 for seconds in clients.seconds]
    note = (
        f"{SERVICES} services, {WORKERS} workers and PostgreSQL on one machine; {RATE} new sessions a second, each of "
        f"two requests to a model of {MODEL_SECONDS:.0f} s and one tool; {SESSIONS} sessions, all watched"
    )
    slowest = [{"ours": quantiles(ms, n=100)[98]}]
    return [
        bench.figure("cluster: a message is taken, 99 of 100", "ms", slowest, Goal(250), note=note),
        bench.figure("cluster: a message is taken, half of them", "ms", [{"ours": median(ms)}], note=note),
    ]


async def _load(clients: Clients) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(SESSIONS):
            group.create_task(clients.talk(f"s{number}", f"page {number}"))
            await asyncio.sleep(1 / RATE)
