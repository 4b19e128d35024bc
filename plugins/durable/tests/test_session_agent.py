"""`deep worker` with real sessions: a run whose process was killed ends in the worker."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from deep_durable import enqueue, open_queue
from deep_sessions import open_store

from plugins.durable.tests.crew import finished
from tests.another_process import Started, run, start
from tests.stubs import OpenAIStub, Script

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
def deep_worker(store: str, *words: str, env: Mapping[str, str] | None = None) -> Generator[Started]:
    command = ["-m", "deep_cli", "worker", "--store", store, "--backend", "memory", *words]
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with start(*command, env=env, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_a_run(store: str) -> None:
    killed = run(KILLED, store)
    assert killed.returncode == -9, killed.stderr


async def wait_for_workers(store: str, *sessions: str) -> None:
    for session in sessions:
        await enqueue(store, session)
    queue = open_queue(store)
    assert await finished(queue) == []
    await queue.aclose()


async def read(store: str) -> tuple[str, str]:
    """The status of the session, and its messages as JSON."""
    sessions = open_store(store)
    info, entries = await sessions.info("one"), await sessions.entries("one")
    await sessions.aclose()
    return info.status, "".join(entry.data.decode() for entry in entries if entry.kind == "messages")


@pytest.mark.slow
def test_a_worker_ends_the_run_of_a_process_that_was_killed(store: str) -> None:
    kill_a_run(store)
    with deep_worker(store, "--model", "demo:echo") as worker:
        asyncio.run(wait_for_workers(store, "one", "of nobody"))  # deleted meanwhile: nothing to do
        worker.terminate()
        out, err = worker.communicate()
    assert (worker.returncode, out) == (0, "")
    assert err.count("\n") == 1
    status, messages = asyncio.run(read(store))
    assert status == "idle"
    assert messages.count("the tide is high") == 2  # the prompt and its echo


@pytest.mark.slow
def test_a_worker_uses_a_stored_key(sqlite_store: str, tmp_path: Path) -> None:
    with OpenAIStub(Script("answered with a key")) as stub:
        known = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
        env = {**known, **stub.env, "HOME": str(tmp_path)}
        del env["OPENAI_API_KEY"]
        assert run("deep_cli", "keys", "set", "openai", stdin="sk-stored\n", env=env).returncode == 0
        kill_a_run(sqlite_store)
        with deep_worker(sqlite_store, "--model", "openai-chat:stub", env=env):
            asyncio.run(wait_for_workers(sqlite_store, "one"))
    status, messages = asyncio.run(read(sqlite_store))
    assert status == "idle"
    assert "answered with a key" in messages


def test_a_worker_without_a_model_says_what_to_type(sqlite_store: str) -> None:
    with deep_worker(sqlite_store) as worker:
        _, err = worker.communicate()
    assert worker.returncode == 2
    assert "deep worker --model" in err
    assert err.count("\n") == 1
