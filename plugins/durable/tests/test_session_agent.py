"""`deep worker` with real sessions: a run whose process was killed ends in the worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from deep_durable import enqueue, open_queue
from deep_sessions import open_store

from plugins.durable.tests.crew import finished

KILLED = """
import asyncio, os, signal, sys
from pydantic_ai.models.function import FunctionModel
from deep_core import Kernel
from deep_sessions import Runner, open_store, session_capabilities

def die(messages, info):
    os.kill(os.getpid(), signal.SIGKILL)

async def main(kernel):
    agent = kernel.create_agent(FunctionModel(die), backend="memory", capabilities=session_capabilities())
    await Runner(agent, open_store(sys.argv[1]), kernel=kernel).run("one", "say: the tide is high", run_id="r1")

with Kernel() as kernel:
    asyncio.run(main(kernel))
"""


@contextmanager
def deep_worker(store: str, *words: str) -> Generator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "deep_cli", "worker", "--store", store, "--backend", "memory", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_worker_ends_the_run_of_a_process_that_was_killed(store: str) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED, store], capture_output=True, text=True, check=False)
    assert killed.returncode == -9, killed.stderr

    async def wait() -> None:
        await enqueue(store, "one")
        await enqueue(store, "of nobody")  # deleted meanwhile: nothing to do
        queue = open_queue(store)
        assert await finished(queue) == []
        await queue.aclose()

    async def read() -> tuple[str, str]:
        sessions = open_store(store)
        info, entries = await sessions.info("one"), await sessions.entries("one")
        await sessions.aclose()
        return info.status, "".join(entry.data.decode() for entry in entries if entry.kind == "messages")

    with deep_worker(store, "--model", "demo:echo") as worker:
        asyncio.run(wait())
        worker.terminate()
        out, err = worker.communicate()
    assert (worker.returncode, out) == (0, "")
    assert err.count("\n") == 1
    status, messages = asyncio.run(read())
    assert status == "idle"
    assert messages.count("the tide is high") == 2  # the prompt and its echo


@pytest.mark.needs("SQLite 3.42")
def test_a_worker_without_a_model_says_what_to_type(sqlite_store: str) -> None:
    with deep_worker(sqlite_store) as worker:
        _, err = worker.communicate()
    assert worker.returncode == 2
    assert "deep worker --model" in err
    assert err.count("\n") == 1


@pytest.mark.needs("SQLite 3.42")
def test_a_second_worker_of_a_file_ends_with_one_line(sqlite_store: str) -> None:
    with deep_worker(sqlite_store, "--model", "demo:echo") as first:
        asyncio.run(_until_someone_works(sqlite_store))
        with deep_worker(sqlite_store, "--model", "demo:echo") as second:
            _, err = second.communicate()
        assert second.returncode == 1
        assert f":{first.pid} works on" in err.splitlines()[-1]


async def _until_someone_works(store: str) -> None:
    queue = open_queue(store)
    while not await queue.workers():
        await asyncio.sleep(0.05)
    await queue.aclose()
