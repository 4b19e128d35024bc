"""A worker of the tests, in a process of its own: `python -m plugins.durable.tests.crew STORE FOLDER TASK`.

Its handler writes a line to `FOLDER/effects` for all that it does: `<verb> <session> <process>`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

from deep_durable import Job, Queue, Worker, open_queue
from deep_sessions import SessionBusy

from tests.another_process import Started, start
from tests.environments import REPOSITORY

__all__ = ["Crew", "effects", "finished", "until"]


class Tasks:
    """What workers do with a session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def write(self, verb: str, session_id: str) -> None:
        """Write one line, which other processes do not tear apart."""
        file = os.open(self.folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, f"{verb} {session_id} {os.getpid()}\n".encode())
        os.close(file)

    async def finish(self, session_id: str) -> None:
        """End at once."""
        self.write("end", session_id)

    async def wait(self, session_id: str) -> None:
        """End as soon as somebody opens the gate."""
        self.write("begin", session_id)
        while not (self.folder / "gate").exists():
            await asyncio.sleep(0.01)
        self.write("end", session_id)

    async def work(self, session_id: str) -> None:
        """Do ten steps of 10 ms."""
        self.write("begin", session_id)
        for _ in range(10):
            await asyncio.sleep(0.01)
        self.write("end", session_id)

    async def die(self, session_id: str) -> None:
        """Kill this process, unless the session is a healthy one."""
        self.write("begin", session_id)
        if session_id.startswith("poison") and not (self.folder / "gate").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        self.write("end", session_id)

    async def busy(self, session_id: str) -> None:
        """Find the session busy until somebody opens the gate."""
        if not (self.folder / "gate").exists():
            self.write("busy", session_id)
            raise SessionBusy("another runner has it", holder="host:1", seconds=0.1)
        self.write("end", session_id)

    async def hang(self, session_id: str) -> None:
        """Never end."""
        self.write("hang", session_id)
        await asyncio.Event().wait()

    async def fail(self, session_id: str) -> None:
        """Raise."""
        self.write("begin", session_id)
        raise ValueError("no such model")


class Crew:
    """Workers of one queue, each in its own process.

    Args:
        store: the URL of the store.
        folder: where the effects are.
        task: a method of `Tasks`.
    """

    def __init__(self, store: str, folder: Path, task: str) -> None:
        self.store, self.folder, self.task = store, folder, task
        self.processes: list[Started] = []

    def start(self) -> Started:
        """Start one more worker."""
        words = ["-m", "plugins.durable.tests.crew", self.store, self.folder, self.task]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        process = start(*words, cwd=REPOSITORY, **streams)
        self.processes.append(process)
        return process

    def live(self) -> Iterator[Started]:
        """The workers that run."""
        return (process for process in self.processes if process.poll() is None)

    @contextmanager
    def running(self, count: int = 1) -> Generator[list[Started]]:
        """Start workers; kill all of this crew at the end."""
        try:
            yield [self.start() for _ in range(count)]
        finally:
            for process in self.live():
                process.kill()
            for process in self.processes:
                process.communicate()


def effects(folder: Path, verb: str = "end") -> list[str]:
    """Return the sessions with which something was done."""
    path = folder / "effects"
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    return [line.split()[1] for line in lines if line.split()[0] == verb]


async def until(condition: Callable[[], bool | Awaitable[bool]], *, seconds: float = 600) -> None:
    """Wait for something that will happen; a machine under load may take long."""
    async with asyncio.timeout(seconds):
        while True:
            result = condition()
            if result if isinstance(result, bool) else await result:
                return
            await asyncio.sleep(0.02)


async def finished(queue: Queue, *, seconds: float = 600) -> list[Job]:
    """Wait until no session waits or runs; return those set aside."""

    async def is_empty() -> bool:
        return all(job.state == "set aside" for job in await queue.jobs())

    await until(is_empty, seconds=seconds)
    return [*await queue.jobs()]


async def main(store: str, folder: Path, task: str) -> None:
    """Work until SIGTERM."""
    queue = open_queue(store, silence=3.0)  # as short as a loaded machine allows
    grace = 60 if task == "work" else 0.2  # work ends by itself: on a busy machine, much later than after 0.1 s
    worker = Worker(getattr(Tasks(folder), task), queue, concurrency=2, grace=grace)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, worker.stop)
    try:
        await worker.run()
    finally:
        await queue.aclose()


if __name__ == "__main__":
    logging.basicConfig(level="WARNING")
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), sys.argv[3]))
