"""What the rows of a queue say after each end of an attempt, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
import base64
import pickle
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from deep_durable import Failed, Patience, Queue, Waits, enqueue, open_queue, rows
from deep_sessions import open_store

PATIENCE = Patience(first=10.0, most=600.0)


def with_queue(store: str, work: Callable[[Queue, int], Awaitable[None]]) -> None:
    async def main() -> None:
        queue = open_queue(store)
        try:
            await work(queue, await queue.register("me"))
        finally:
            await queue.aclose()

    asyncio.run(main())


def test_an_outage_lets_one_session_find_out_and_obeys_retry_after(store: str) -> None:
    async def work(queue: Queue, worker: int) -> None:
        for name in ("one", "two", "three"):
            await queue.enqueue(name)
        assert len(await queue.claim(worker, 2, provider="p")) == 2
        await queue.settle(worker, "one", Waits("p", "503", seconds=120.0), patience=PATIENCE)
        await queue.settle(worker, "two", Waits("p", "503"), patience=PATIENCE)
        (outage,) = await queue.outages()
        assert 110 < outage.next_try <= 120
        assert await queue.claim(worker, 5, provider="p") == {}  # also what has not met it
        assert {job.session_id: job.failures for job in await queue.jobs()} == {"one": 0, "two": 0, "three": 0}
        assert len(await queue.claim(worker, 5, provider="another")) == 1

    with_queue(store, work)


def test_the_answer_to_a_probe_lets_all_run(store: str) -> None:
    async def work(queue: Queue, worker: int) -> None:
        short = Patience(first=0.0)
        for name in ("one", "two"):
            await queue.enqueue(name)
        await queue.claim(worker, 2, provider="p")
        for name in ("one", "two"):
            await queue.settle(worker, name, Waits("p", "503"), patience=short)
        (probe,) = (await queue.claim(worker, 1, provider="p")).items()
        assert probe[1]
        await queue.answered(probe[0])
        assert await queue.outages() == []
        assert [*(await queue.claim(worker, 5, provider="p")).values()] == [False]

    with_queue(store, work)


def test_a_refusal_from_before_the_providers_return_begins_no_second_outage(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(queue: Queue, worker: int) -> None:
        for name in ("probe", "late"):
            await queue.enqueue(name)
        assert {*await queue.claim(worker, 2, provider="p")} == {"probe", "late"}
        await queue.settle(worker, "probe", Waits("p", "503"), patience=Patience(first=0.0))
        assert await queue.claim(worker, 1, provider="p") == {"probe": True}
        await queue.answered("probe")
        await queue.settle(worker, "late", Waits("p", "503"), patience=PATIENCE)
        assert await queue.outages() == []
        assert await queue.claim(worker, 1, provider="p") == {"late": False}  # at once, and it finds out
        await queue.settle(worker, "late", Waits("p", "503"), patience=PATIENCE)
        assert [outage.provider for outage in await queue.outages()] == ["p"]

    with_queue(store, work)
    assert caplog.text.count("is down, and its sessions wait") == 2


def test_the_end_of_an_outage_is_told_though_whoever_noted_it_was_stopped(
    store: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A probe that completes at once stops whoever notes its answer."""

    async def work(queue: Queue, worker: int) -> None:
        await queue.enqueue("one")
        await queue.claim(worker, 1, provider="p")
        await queue.settle(worker, "one", Waits("p", "503"), patience=Patience(first=0.0))
        assert await queue.claim(worker, 1, provider="p") == {"one": True}
        noting = asyncio.ensure_future(queue.answered("one"))
        while not noting.done():
            await asyncio.sleep(0)
            noting.cancel()
        assert await queue.outages() == []

    with_queue(store, work)
    assert caplog.text.count("answers again") == 1


def test_a_session_that_takes_a_step_between_failures_is_not_set_aside(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "PAUSES", (0.0,))

    async def work(queue: Queue, worker: int) -> None:
        await queue.enqueue("one")
        for step in (1, 2, 3, 3):
            assert await queue.claim(worker, 1)
            await queue.settle(worker, "one", Failed("no such file"), step=step, patience=PATIENCE)
        (job,) = await queue.jobs()
        assert (job.state, job.failures, job.error) == ("waiting", 4, "no such file")

    with_queue(store, work)


def test_a_session_whose_handler_raises_waits_one_second_then_ten_and_is_set_aside(
    store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    wait = rows.wait

    def noted(run: Any, inputs: str, seconds: float = 0.0, **columns: Any) -> None:
        pauses.append(seconds)
        wait(run, inputs, **columns)  # the test goes on at once

    monkeypatch.setattr(rows, "wait", noted)

    async def work(queue: Queue, worker: int) -> None:
        await queue.enqueue("one")
        for failures in (1, 2, 3):
            assert await queue.claim(worker, 1)
            await queue.settle(worker, "one", Failed("no such file"), patience=PATIENCE)
            (job,) = await queue.jobs()
            assert (job.failures, job.state) == (failures, "set aside" if failures == 3 else "waiting")

    with_queue(store, work)
    assert pauses == [1.0, 10.0, 10.0]


def test_nothing_ends_the_pause_of_a_session_that_failed(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PAUSES", (600.0,))

    async def work(queue: Queue, worker: int) -> None:
        await queue.enqueue("one")
        assert await queue.claim(worker, 1)
        await queue.settle(worker, "one", Failed("no such file"), patience=PATIENCE)
        await queue.enqueue("one")
        assert await queue.claim(worker, 1) == {}

    with_queue(store, work)


PICKLE = pickle.dumps({"args": ("one",), "kwargs": {}}, 0)
PAYLOADS = {
    "a pickle as text": base64.b64encode(PICKLE).decode(),
    "an old pickle": PICKLE.decode(),
    "a pickle as bytes": PICKLE,
    "the id as bytes": b'"one"',
    "bytes that are no text": b"\xff\xfe",
    "the arguments of a call": '{"args": ["one"], "kwargs": {}}',
    "a list": '["one"]',
    "an empty table": "{}",
    "a number": 7,
    "a number as text": "7",
    "true": "true",
    "null": "null",
    "no number": "NaN",
    "no id": '""',
    "nothing": "",
    "depth": "[" * 200_000,
    "ten megabytes": f'"{"x" * 10_000_000}"',
    "an id that is too long": f'"{"x" * 501}"',
    "a NUL in the id": '"o\\u0000ne"',
    "half a character": '"\\ud800"',
    "other JSON of the id": '"\\u006fne"',
    "a blank": '"one" ',
    "a line break": '"one"\n',
    "a mark of the byte order": '\ufeff"one"',
    "other quotes": "'one'",
}


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_that_is_no_session_is_dropped(
    payload: str, sqlite_store: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(queue: Queue, worker: int) -> None:
        await queue.enqueue("one")
        with sqlite3.connect(tmp_path / "sessions.queue.db") as file:
            file.execute("update workflow_input set inputs = ?", [PAYLOADS[payload]])
        file.close()
        (listed,) = await queue.jobs()
        assert len(listed.session_id) <= 80
        assert await queue.claim(worker, 5) == {}
        assert await queue.jobs() == []

    with_queue(sqlite_store, work)
    assert "no id of a session" in caplog.text
    assert len(caplog.text) < 1_000


@pytest.mark.parametrize("name", ["one", "x" * 500, "\U0001f600" * 500, "../../x", "--store", "a b\n\u202e"])
def test_an_id_that_a_store_can_hold_is_claimed(name: str, sqlite_store: str) -> None:
    async def work(queue: Queue, worker: int) -> None:
        await queue.enqueue(name)
        assert [*await queue.claim(worker, 5)] == [name]

    with_queue(sqlite_store, work)


def test_enqueue_with_an_open_store_takes_few_milliseconds(store: str) -> None:
    async def main() -> float:
        opened = open_store(store)
        await enqueue(opened, "first", "hello")
        began = time.process_time()
        for number in range(20):
            await enqueue(opened.for_owner("acme"), f"s{number}", "hello")
        taken = (time.process_time() - began) / 20
        queue = open_queue(store)
        assert len(await queue.jobs()) == 21
        await queue.aclose()
        await opened.aclose()
        return taken

    assert asyncio.run(main()) < 0.008
