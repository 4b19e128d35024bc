"""`python -m benchmarks.queues [sqlite | postgresql]`: measure the queue of workers, for docs/decisions/0020-queues.md.

Every worker is a process. A job writes to a file when it begins and ends, and does nothing else; where workers are
killed, it sleeps for 50 ms. PostgreSQL is a cluster of its own in a temporary folder.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from deep_durable import Worker, open_queue

from tests.postgresql import cluster

JOBS, CONCURRENCY, KILLED, KILLS, ROUNDS = 600, 10, 60, 5, 3
IMPORT = """
import resource, time
from pathlib import Path
import deep_durable.worker

def memory():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

before, began = memory(), time.process_time()
import {modules}
print((time.process_time() - began) * 1000, memory() - before)
"""


KINDS = {"sqlite": "deep_durable.sqlite", "postgresql": "deep_durable.postgresql"}
"""Kind of queue -> the module that its process imports."""


# -- a worker ----------------------------------------------------------------------------------------------------------


async def work(url: str, folder: Path, seconds: float) -> None:
    """Work until killed. Jobs end as soon as the gate is open."""

    def write(verb: str, session_id: str) -> None:
        file = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, f"{verb} {session_id} {time.time()}\n".encode())
        os.close(file)

    async def handler(session_id: str) -> None:
        write("begin", session_id)
        while not (folder / "gate").exists():
            await asyncio.sleep(0.005)
        if seconds:
            await asyncio.sleep(seconds)
        write("end", session_id)

    write("ready", str(os.getpid()))
    await Worker(handler, open_queue(url), concurrency=CONCURRENCY).run()


@contextmanager
def crew(url: str, folder: Path, seconds: float) -> Generator[Callable[[], subprocess.Popen[bytes]]]:
    """Yield a function that starts a worker; kill them all at the end."""
    processes: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        program = [sys.executable, "-m", "benchmarks.queues", "worker", url, str(folder), str(seconds)]
        processes.append(subprocess.Popen(program))
        return processes[-1]

    try:
        yield start
    finally:
        for process in processes:
            process.kill()
            process.wait()


def lines(folder: Path, verb: str) -> list[tuple[str, float]]:
    """Return the sessions and times of what workers did."""
    path = folder / "effects"
    found = [line.split() for line in path.read_text("utf-8").splitlines()] if path.exists() else []
    return [(session, float(when)) for what, session, when in found if what == verb]


async def until(condition: Callable[[], bool]) -> None:
    """Wait for at most two minutes."""
    async with asyncio.timeout(120):
        while not condition():
            await asyncio.sleep(0.01)


# -- what is measured --------------------------------------------------------------------------------------------------


async def fill(url: str, count: int) -> None:
    """Enqueue sessions."""
    queue = open_queue(url)
    for number in range(count):
        await queue.enqueue(f"s{number}")
    await queue.aclose()


async def throughput(url: str, folder: Path, workers: int) -> float:
    """Return empty jobs a second, from when all workers are at work to the last one."""
    await fill(url, JOBS)
    with crew(url, folder, 0.0) as start:
        for _ in range(workers):
            start()
        await until(lambda: len(lines(folder, "begin")) >= workers * CONCURRENCY)
        (folder / "gate").touch()
        await until(lambda: len(lines(folder, "end")) >= JOBS)
    times = [when for _, when in lines(folder, "end")]
    return (len(times) - 1) / (max(times) - min(times))


async def takeover(url: str, folder: Path) -> float:
    """Return the seconds from a kill to the next beginning of the job, by a second worker or the next one."""
    (folder / "gate").touch()
    await fill(url, 1)
    with crew(url, folder, 1e6) as start:
        first = start()
        await until(lambda: len(lines(folder, "begin")) == 1)
        start()
        await until(lambda: len(lines(folder, "ready")) == 2)
        await asyncio.sleep(3)  # the second one has launched
        killed = time.time()
        first.kill()
        first.wait()
        await until(lambda: len(lines(folder, "begin")) == 2)
    return lines(folder, "begin")[1][1] - killed


async def kills(url: str, folder: Path) -> tuple[int, int]:
    """Kill workers while they work; return how many jobs were lost, and how many ended twice."""
    (folder / "gate").touch()
    await fill(url, KILLED)
    queue = open_queue(url)
    with crew(url, folder, 0.05) as start:
        victims = [start() for _ in range(2)]
        for number in range(1, KILLS + 1):
            target = number * KILLED // (KILLS + 1)
            await until(lambda target=target: len({session for session, _ in lines(folder, "end")}) >= target)
            victim = victims.pop(0)
            victim.kill()
            victim.wait()
            victims.append(start())
        async with asyncio.timeout(120):
            while await queue.jobs():
                await asyncio.sleep(0.1)
    await queue.aclose()
    ended = Counter(session for session, _ in lines(folder, "end"))
    return KILLED - len(ended), sum(count > 1 for count in ended.values())


def weight(module: str) -> tuple[float, float]:
    """Return milliseconds (CPU) and megabytes of the imports, beside what every worker imports."""
    rows: list[list[float]] = []
    for _ in range(5):
        program = [sys.executable, "-c", IMPORT.format(modules=module)]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        rows.append([float(word) for word in done.stdout.split()])
    return statistics.median(row[0] for row in rows), statistics.median(row[1] for row in rows)


def main(names: list[str]) -> None:
    """Measure all, and print the table as it goes."""
    with cluster() as server, tempfile.TemporaryDirectory() as temporary:
        numbers = iter(range(1_000_000))

        def place(kind: str) -> tuple[str, Path]:
            folder = Path(temporary, str(next(numbers)))
            folder.mkdir()
            return f"sqlite:///{folder}/s.db" if kind == "sqlite" else server.create_database(), folder

        for kind, module in KINDS.items():
            if names and kind not in names:
                continue
            milliseconds, megabytes = weight(module)
            print(f"{kind}: import {milliseconds:.0f} ms CPU, {megabytes:.0f} MB", flush=True)
            for workers in (1, 2, 4):
                rates = [asyncio.run(throughput(*place(kind), workers)) for _ in range(ROUNDS)]
                print(f"{kind}: {workers} workers: {statistics.median(rates):.0f} empty jobs a second", flush=True)
            waits = [asyncio.run(takeover(*place(kind))) for _ in range(ROUNDS)]
            print(f"{kind}: takeover after {', '.join(f'{wait:.1f}' for wait in sorted(waits))} s", flush=True)
            lost, twice = zip(*(asyncio.run(kills(*place(kind))) for _ in range(ROUNDS)), strict=True)
            print(f"{kind}: {KILLED} jobs, {KILLS} kills: lost {[*lost]}, ended twice {[*twice]}", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        asyncio.run(work(sys.argv[2], Path(sys.argv[3]), float(sys.argv[4])))
    else:
        main(sys.argv[1:])
