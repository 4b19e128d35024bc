"""The SQLite store and its file: full, read-only, damaged, replaced; nothing more is lost, and the error says why."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import (
    Commit,
    Entry,
    NewEntry,
    NothingToResume,
    SessionNotFound,
    SessionStore,
    SqliteStore,
    StoreError,
    export,
)
from deep_sessions.fold import fold
from deep_sessions.stores.sqlite_file import LOG_BYTES

from plugins.sessions.tests.deep_agents import create
from tests.another_process import start
from tests.drawn import many

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "files" / "sessions.db"


@pytest.fixture
async def store(path: Path) -> AsyncIterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    await store.aclose()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small disk needs root: run the tests as root in a container")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


async def fill(path: Path, sessions: int = 3, entries: int = 60) -> dict[str, list[Entry]]:
    """Create sessions of known content; return their entries."""
    store, draw, found = SqliteStore(path), random.Random(7), dict[str, list[Entry]]()
    for name in (f"s{number}" for number in range(sessions)):
        lease = await store.acquire(name)
        for _ in range(entries):
            await store.commit(lease, Commit([NewEntry("messages", b'"%s"' % draw.randbytes(700).hex().encode())]))
        await store.commit(lease, Commit(put={"tail:": b'"a result"'}))
        await store.post(name, "prompt", b'"hello"')
        await store.release(lease)
        found[name] = [*await store.entries(name)]
    await store.aclose()
    return found


# -- full and read-only ------------------------------------------------------------------------------------------------


ENTRY = Commit([NewEntry("messages", b"x" * 2_000)])


async def test_a_commit_that_need_not_wait_is_written_in_this_thread(store: SqliteStore, path: Path) -> None:
    lease = await store.acquire("s")
    assert store.commit_now(lease, ENTRY) == 1
    with sqlite3.connect(path) as other:
        assert other.execute("SELECT count(*) FROM entries").fetchone() == (1,)
    other.close()
    assert [entry.seq for entry in await store.entries("s")] == [1]


async def test_a_commit_that_would_wait_for_another_writer_is_left_to_the_thread(
    store: SqliteStore, path: Path
) -> None:
    lease = await store.acquire("s")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert store.commit_now(lease, ENTRY) is None
    waiting = asyncio.ensure_future(store.commit(lease, ENTRY))
    other.execute("COMMIT")
    other.close()
    assert await waiting == 1
    assert store.commit_now(lease, ENTRY) == 2


async def test_a_commit_that_would_wait_for_the_disk_is_left_to_the_thread(path: Path) -> None:
    store = SqliteStore(path, durability="full")
    lease = await store.acquire("s")
    assert store.commit_now(lease, ENTRY) is None
    assert await store.commit(lease, ENTRY) == 1
    await store.aclose()


async def test_a_file_that_was_replaced_or_closed_is_left_to_the_thread(store: SqliteStore, path: Path) -> None:
    lease = await store.acquire("s")
    for name in (path, Path(f"{path}-wal"), Path(f"{path}-shm")):
        name.unlink()
    assert store.commit_now(lease, ENTRY) is None
    await store.aclose()
    assert store.commit_now(lease, ENTRY) is None


async def test_the_log_of_many_commits_stays_short(store: SqliteStore, path: Path) -> None:
    lease, waited = await store.acquire("s"), 0
    for number in range(1, 1_001):
        if store.commit_now(lease, ENTRY) is None:
            waited += 1
            assert await store.commit(lease, ENTRY) == number
    assert 0 < waited < 20
    assert Path(f"{path}-wal").stat().st_size < 3 * LOG_BYTES


async def test_a_full_disk_loses_nothing_and_the_store_recovers(small_disk: Path) -> None:
    (small_disk / "filler").write_bytes(b"x" * 300_000)
    store, last = SqliteStore(small_disk / "sessions.db"), 0
    lease = await store.acquire("s")
    with pytest.raises(StoreError, match=r"sessions.db: the disk (is full|fails, or is full)"):  # noqa: PT012
        while True:
            last = await store.commit(lease, Commit([NewEntry("messages", b"x" * 5000)] * 2, put={"tail:": b"{}"}))
    assert last > 10
    stored = await store.load("s")
    assert [entry.seq for entry in stored.entries] == [*range(1, last + 1)]
    (small_disk / "filler").unlink()
    assert await store.commit(lease, Commit([NewEntry("messages", b"{}")])) == last + 1
    await store.aclose()


async def test_a_read_only_file_can_be_read(small_disk: Path) -> None:
    path = small_disk / "sessions.db"
    whole = await fill(path, sessions=1, entries=5)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    store = SqliteStore(path)
    assert (await store.load("s0")).entries == whole["s0"]
    assert [info.id for info in await store.list()] == ["s0"]
    with pytest.raises(StoreError, match=r"sessions.db: the file cannot be (written|opened)"):
        await store.acquire("s0")
    await store.aclose()


async def test_a_folder_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = SqliteStore(tmp_path / "file" / "sessions.db")
    with pytest.raises(StoreError, match=r"file/sessions.db: "):
        await store.list()
    await store.aclose()


# -- not ours ----------------------------------------------------------------------------------------------------------


async def check_refused(path: Path, message: str) -> None:
    before, store = path.read_bytes(), SqliteStore(path)
    for call in (store.acquire("s"), store.load("s"), store.list()):
        with pytest.raises(StoreError, match=message):
            await call
    await store.aclose()
    assert path.read_bytes() == before


async def test_a_file_that_is_no_database_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("Buy milk.\n" * 500)
    await check_refused(tmp_path / "notes.txt", r"notes.txt: the file is no SQLite database: name another file")


async def test_a_database_of_another_program_stays_as_it_is(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "other.db")
    connection.execute("CREATE TABLE songs (name)")
    connection.close()
    await check_refused(tmp_path / "other.db", r"other.db is a database of another program")


async def test_a_file_of_a_newer_version_stays_as_it_is(path: Path) -> None:
    await fill(path, sessions=1, entries=2)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    await check_refused(
        path, r"written by a newer deep-sessions \(schema 99, this one knows 2\): pip install --upgrade"
    )


# -- damage ------------------------------------------------------------------------------------------------------------


async def test_a_truncated_file_gives_what_is_whole(path: Path) -> None:
    whole = await fill(path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 2 // 3])
    before, store = path.read_bytes(), SqliteStore(path)
    with pytest.raises(StoreError, match=r"sessions.db: the file is damaged: `deep sessions export SESSION` saves"):
        await store.acquire("s0")
    saved = {name: [*await store.entries(name)] for name in whole}
    await store.aclose()
    assert path.read_bytes() == before
    assert sum(map(len, saved.values())) > 60
    for name, entries in saved.items():
        assert [entry for entry in entries if entry not in whole[name]] == []
        assert [entry.seq for entry in entries] == sorted(entry.seq for entry in entries)


@pytest.mark.slow
async def test_a_flipped_bit_is_never_read_as_data(path: Path) -> None:
    whole = await fill(path)
    data, draw, noticed = path.read_bytes(), random.Random(3), 0
    for _ in range(120):
        at = draw.randrange(100, len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :])
        store = SqliteStore(path)
        for name, entries in whole.items():
            try:
                stored = await store.load(name)
                assert (list(stored.entries), stored.info.seq) == (entries, len(entries)), at
                assert (dict(stored.ledger), [mail.data for mail in stored.mail]) == (
                    {"tail:": b'"a result"'},
                    [b'"hello"'],
                ), at
            except StoreError:
                noticed += 1
            try:
                assert [entry for entry in await store.entries(name) if entry not in entries] == []
            except StoreError:
                noticed += 1
        await store.aclose()
    assert noticed > 60, "most of the file is entries"


async def test_damage_in_one_session_leaves_the_others(path: Path) -> None:
    whole = await fill(path)
    connection = sqlite3.connect(path)
    connection.execute("UPDATE entries SET data = zeroblob(10) WHERE session = 2 AND seq IN (7, 9)")
    connection.commit()
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"sessions.db: entry 7 of session s1 is damaged; `deep sessions export"):
        await store.load("s1")
    assert [entry.seq for entry in await store.entries("s1", limit=8)] == [1, 2, 3, 4, 5, 6, 8, 10]
    for name in ("s0", "s2"):
        assert (await store.load(name)).entries == whole[name]
        await store.commit(await store.acquire(name), Commit([NewEntry("messages", b"{}")]))
    await store.aclose()


async def test_a_damaged_row_of_a_session_leaves_its_entries(path: Path) -> None:
    whole = await fill(path, entries=3)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE sessions SET seq = 1 << 50 WHERE id = 's1'")
    connection.close()
    store = SqliteStore(path)
    with pytest.raises(StoreError, match=r"the row of session s1 is damaged; `deep sessions export SESSION`"):
        await store.acquire("s1")
    assert await store.entries("s1") == whole["s1"]
    assert [line["type"] for line in await saved(store, "s1")] == ["damaged", "entry", "entry", "entry", "damaged"]
    with pytest.raises(StoreError):  # whose it is, is not certain
        await store.for_owner("ann").entries("s1")
    await store.aclose()


async def test_a_damaged_index_does_not_lead_to_another_session(path: Path) -> None:
    whole = await fill(path, entries=2)
    data = path.read_bytes()
    name, key = b"s1", b"\x02"
    assert data.count(name + key) == 1
    path.write_bytes(data.replace(name + key, name + b"\x03"))  # the key of s2
    store = SqliteStore(path)
    for use in (store.acquire("s1"), store.load("s1"), store.delete("s1"), store.entries("s1")):
        with pytest.raises(StoreError, match="the row of session s1 is damaged"):
            await use
    assert await store.entries("s2") == whole["s2"]
    await store.aclose()


# -- what an agent says of it ------------------------------------------------------------------------------------------


async def saved(store: SessionStore, session_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) async for line in export(store, session_id)]


def put(folder: Path) -> list[str]:
    """Return what the agent's tool has put, in order."""
    return [line.split()[1] for line in (folder / "effects").read_text().splitlines()]


async def test_a_full_disk_ends_a_run_and_the_session_continues_when_there_is_space(
    small_disk: Path, tmp_path: Path
) -> None:
    store = SqliteStore(small_disk / "sessions.db")
    agent, runs = await create(store, tmp_path), 1
    await agent.run("level 0", session_id="s")
    space = os.statvfs(small_disk)
    (small_disk / "filler").write_bytes(b"x" * (space.f_bavail * space.f_bsize - 40_000))
    with pytest.raises(StoreError, match=r"sessions.db: the disk .*(free some space|check it \(df)"):  # noqa: PT012
        while True:
            runs += 1
            await agent.run("level 0", session_id="s")
    whole = await store.load("s")
    assert [line["seq"] for line in await saved(store, "s") if line["type"] == "entry"] == [
        *range(1, whole.info.seq + 1)
    ]
    (small_disk / "filler").unlink()
    with suppress(NothingToResume):  # the disk was full before the last run began
        assert (await agent.resume("s")).status == "completed"
    assert (await agent.run("level 0", session_id="s")).status == "completed"
    assert (await store.load("s")).entries[: len(whole.entries)] == whole.entries
    assert all(runs - 1 <= put(tmp_path).count(n) <= runs + 1 for n in "12")
    await store.aclose()


async def test_a_read_only_file_refuses_a_run_and_gives_the_conversation(small_disk: Path, tmp_path: Path) -> None:
    store = SqliteStore(small_disk / "sessions.db")
    agent = await create(store, tmp_path)
    await agent.run("level 0", session_id="s")
    await store.aclose()
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    store = SqliteStore(small_disk / "sessions.db")
    agent = await create(store, tmp_path)
    for name in ("s", "new"):
        with pytest.raises(StoreError, match=r"sessions.db: the file cannot be (written|opened): .* name another file"):
            await agent.run("level 0", session_id=name)
    assert len(fold(await store.load("s")).messages()) == 6
    lines = await saved(store, "s")
    assert [line["type"] for line in lines] == ["session", *["entry"] * lines[0]["seq"]]
    assert put(tmp_path) == ["1", "2"]
    await store.aclose()


async def run_some(path: Path, tmp_path: Path) -> dict[str, list[dict[str, Any]]]:
    """Run sessions; return what each exports."""
    store = SqliteStore(path)
    agent = await create(store, tmp_path)
    names = [f"s{number}" for number in range(4)]
    for name in names * 3:
        await agent.run("level 0", session_id=name)
    found = {name: await saved(store, name) for name in names}
    await store.aclose()
    return found


async def check_damaged(path: Path, tmp_path: Path, whole: dict[str, list[dict[str, Any]]]) -> int:
    """Use all sessions of a damaged file; return how many were refused."""
    store, refused = SqliteStore(path), 0
    for name, before in whole.items():
        try:
            lines = await saved(store, name)
        except StoreError as error:
            assert "the file is damaged" in str(error)  # noqa: PT017
            lines = []
        assert [line for line in lines if line["type"] == "entry" and line not in before] == []
        agent = await create(store, tmp_path)
        try:
            assert (await agent.run("level 0", session_id=name)).status == "completed"
        except StoreError as error:
            refused += 1
            assert "damaged" in str(error)  # noqa: PT017
            assert "`deep sessions export SESSION` saves what is whole" in str(error)  # noqa: PT017
    await store.aclose()
    return refused


@pytest.mark.slow
async def test_a_run_in_a_damaged_file_works_or_says_what_to_do(path: Path, tmp_path: Path) -> None:
    whole = await run_some(path, tmp_path)
    data, draw, refused = path.read_bytes(), random.Random(11), 0
    for _ in range(many(12, 150)):
        for log in path.parent.glob("*-*"):
            log.unlink()
        at = draw.randrange(100, len(data))
        path.write_bytes(data[:at] + bytes([data[at] ^ (1 << draw.randrange(8))]) + data[at + 1 :])
        refused += await check_damaged(path, tmp_path, whole)
    assert refused > 0


@pytest.mark.slow
async def test_a_run_in_a_truncated_file_says_what_to_do(path: Path, tmp_path: Path) -> None:
    whole = await run_some(path, tmp_path)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) * 5 // 6])
    store = SqliteStore(path)
    kept = [line for name in whole for line in await saved(store, name) if line["type"] == "entry"]
    await store.aclose()
    assert 0 < len(kept) < sum(map(len, whole.values())) - 4
    assert await check_damaged(path, tmp_path, whole) == 4


# -- the file itself ---------------------------------------------------------------------------------------------------


async def test_what_is_deleted_is_overwritten(path: Path, store: SqliteStore) -> None:
    async def use(name: str, canary: bytes) -> None:
        lease = await store.acquire(name)
        await store.commit(lease, Commit([NewEntry("messages", b'"%s"' % (canary * 300))], put={"tail:": canary * 20}))
        await store.post(name, "prompt", canary)
        await store.commit(lease, Commit(drop=["tail:"]))
        await store.release(lease)

    def found(canary: bytes) -> list[str]:
        return [file.name for file in path.parent.iterdir() if canary in file.read_bytes()]

    await use("s", b"canary-one")
    await use("other", b"canary-two")
    assert found(b"canary-one")
    await store.delete("s")
    assert found(b"canary-one") == []
    assert found(b"canary-two")


async def test_a_file_that_was_deleted_is_not_written_to(path: Path, store: SqliteStore) -> None:
    lease = await store.acquire("s")
    for file in path.parent.iterdir():
        file.unlink()
    with pytest.raises(SessionNotFound):
        await store.commit(lease, Commit([NewEntry("messages", b"{}")]))


async def test_a_locked_file_is_named(path: Path) -> None:
    await fill(path, sessions=1, entries=1)
    store, other = SqliteStore(path, timeout=0.05), sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="another process keeps the file locked"):
        await store.acquire("s0")
    assert (await store.info("s0")).seq == 1  # readers do not wait
    other.execute("ROLLBACK")
    other.close()
    await store.acquire("s0")
    await store.aclose()


@pytest.mark.slow
async def test_many_processes_create_one_file(tmp_path: Path) -> None:
    program = """
import asyncio, sys
from deep_sessions import SqliteStore
async def main(path):
    store = SqliteStore(path)
    await store.acquire(sys.argv[1])
    await store.aclose()
for line in sys.stdin:
    asyncio.run(main(line.strip()))
"""
    processes = [
        start("-c", program, f"s{n}", text=True, stdin=subprocess.PIPE, stderr=subprocess.PIPE) for n in range(5)
    ]
    paths = [tmp_path / f"{number}.db" for number in range(20)]
    for process in processes:
        assert process.stdin is not None
        process.stdin.writelines(f"{path}\n" for path in paths)
        process.stdin.flush()
    assert [process.communicate()[1] for process in processes] == [""] * 5
    for path in paths:
        store = SqliteStore(path)
        assert {info.id for info in await store.list()} == {f"s{n}" for n in range(5)}
        await store.aclose()


@pytest.mark.slow
def test_a_forked_process_opens_the_file_again(path: Path) -> None:
    program = """
import asyncio, os, sys
from deep_sessions import Commit, NewEntry, SqliteStore
store = SqliteStore(sys.argv[1])
lease = asyncio.run(store.acquire("s"))
child = os.fork()
for _ in range(50):
    asyncio.run(store.commit(lease, Commit([NewEntry("messages", b"{}")])))
if not child:
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
print(asyncio.run(store.info("s")).seq)
"""
    command = [sys.executable, "-W", "ignore", "-c", program, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.stderr) == ("100", "")


async def test_a_closed_store_says_so(path: Path) -> None:
    store: SessionStore = SqliteStore(path)
    await store.acquire("s")
    await store.aclose()
    with pytest.raises(StoreError, match=r"sessions.db was closed; open it again"):
        await store.info("s")
    await asyncio.sleep(0)
