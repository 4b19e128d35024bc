"""`deep workers`, as people type it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from deep_cli import run_command
from deep_durable import enqueue, open_queue

from plugins.durable.tests.crew import Crew, effects, finished, until
from plugins.durable.tests.test_session_agent import deep_worker
from tests import another_process


def deep(*words: str, code: int = 0) -> str:
    done = another_process.run("deep_cli", *words)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.slow
def test_workers_shows_who_works_on_what_and_what_waits(store: str, tmp_path: Path) -> None:
    assert deep("workers", "--store", store) == "no worker; start one with: deep worker\n"
    asyncio.run(enqueue(store, "one"))
    assert "one waits" in deep("workers", "--store", store)
    with Crew(store, tmp_path, "wait").running() as (worker,):
        asyncio.run(until(lambda: effects(tmp_path, "begin") == ["one"]))
        assert deep("workers", "--store", store).endswith(f":{worker.pid} works on one\n")
        told = json.loads(deep("workers", "--store", store, "--json"))
    assert [worker["sessions"] for worker in told["workers"]] == [["one"]]
    assert [(job["session_id"], job["state"]) for job in told["sessions"]] == [("one", "running")]


@pytest.mark.slow
def test_workers_releases_a_session_that_was_set_aside(sqlite_store: str, tmp_path: Path) -> None:
    async def set_aside() -> None:
        queue = open_queue(sqlite_store)
        await queue.enqueue("poison")
        crew = Crew(sqlite_store, tmp_path, "die")
        with crew.running() as (process,):
            for _ in range(4):  # the first death makes it a suspect
                process.wait()
                process = crew.start()
            await finished(queue)
        await queue.aclose()

    asyncio.run(set_aside())
    shown = deep("workers", "--store", sqlite_store)
    assert "poison is set aside after 3 failures, the last one: its worker died" in shown
    command = next(line.partition("; ")[2] for line in shown.splitlines() if line.startswith("poison"))
    assert "poison waits" in deep(*command.removeprefix("deep ").split(), "--store", sqlite_store)


@pytest.mark.exhaustive
def test_a_worker_does_the_tasks_that_run_leaves_in_the_queue(store: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("ebb at six")
    file = str(tmp_path / "notes.txt")
    assert deep("run", "read the tide", "--queue", "--session", "tides", "--store", store, "--file", file) == "tides\n"
    assert deep("run", "and the moon", "--queue", "--session", "tides", "--store", store) == "tides\n"
    other = json.loads(deep("run", "hello", "--queue", "--store", store, "--output", "json"))["session"]
    shown = deep("workers", "--store", store)
    assert "tides waits" in shown
    assert f"{other} waits" in shown

    async def wait() -> None:
        queue = open_queue(store)
        assert await finished(queue) == []
        await queue.aclose()

    with deep_worker(store, "--model", "demo:echo"):
        asyncio.run(wait())
    shown = deep("sessions", "show", "tides", "--store", store)
    assert shown.count("read the tide") == 2  # the task and its echo
    assert shown.index("ebb at six") < shown.index("and the moon")
    assert shown.count("and the moon") == 2
    assert deep("sessions", "show", other, "--store", store).count("hello") == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--queue"], "TASK is empty"),
        (["--queue", "--session", "tides"], "TASK is empty"),
        (["hello", "--queue", "--model", "demo:echo"], "deep worker"),
        (["hello", "--queue", "--store", "memory:"], "postgresql://"),
    ],
)
def test_what_cannot_be_queued_is_one_error(words: list[str], told: str) -> None:
    done = CliRunner().invoke(run_command, words)
    assert done.exit_code in (1, 2)
    assert told in done.stderr or told in str(done.exception)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--store", "memory:"], "postgresql://"),
        pytest.param(
            ["--store", "sqlite:///{folder}/x.db", "--release", "one"],
            "session one is not set aside",
        ),
    ],
)
def test_errors_are_one_line(words: list[str], told: str, tmp_path: Path) -> None:
    shown = deep("workers", *(word.format(folder=tmp_path) for word in words), code=1)
    assert shown.startswith("deep: ")
    assert told in shown
    assert shown.count("\n") == 1


@pytest.mark.slow
def test_importing_the_package_loads_no_queue() -> None:
    program = "import sys, deep_durable, deep_durable.commands, deep_durable.worker; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"dbos", "procrastinate", "psycopg", "sqlalchemy", "pydantic_ai"} & {*modules}
