"""The queue in a SQLite file: new, damaged, of an older version, after a restart of the machine."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest
from deep_durable import QueueError, open_queue


async def add(store: str, *names: str) -> None:
    queue = open_queue(store)
    for name in names:
        await queue.enqueue(name)
    await queue.aclose()


def test_a_file_that_is_no_database_is_an_error_with_its_path(sqlite_store: str, tmp_path: Path) -> None:
    (tmp_path / "sessions.queue.db").write_text("no database at all, but long enough to be one " * 100)
    with pytest.raises(QueueError, match=r"sessions\.queue\.db"):
        asyncio.run(add(sqlite_store, "one"))


def test_the_file_of_an_older_version_is_refused(sqlite_store: str, tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "sessions.queue.db") as older:
        older.execute("create table workflow_input (workflow_uuid text, inputs text)")
    older.close()
    with pytest.raises(QueueError, match="older deep-durable: move the file away"):
        asyncio.run(add(sqlite_store, "one"))


def test_pauses_of_an_earlier_boot_are_over(sqlite_store: str, tmp_path: Path) -> None:
    asyncio.run(add(sqlite_store, "one"))
    with sqlite3.connect(tmp_path / "sessions.queue.db") as file:
        file.execute("update workflow_input set due = 1e12, failures = 1")
        file.execute("update queue_clock set boot = 'an earlier one'")
    file.close()

    async def claimed() -> list[str]:
        queue = open_queue(sqlite_store)
        worker = await queue.register("me")
        found = await queue.claim(worker, 5)
        await queue.aclose()
        return [*found]

    assert asyncio.run(claimed()) == ["one"]


def test_only_its_user_can_read_the_file(sqlite_store: str, tmp_path: Path) -> None:
    asyncio.run(add(sqlite_store, "one"))
    assert (tmp_path / "sessions.queue.db").stat().st_mode & 0o077 == 0
