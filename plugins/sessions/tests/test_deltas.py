"""`session.persist_delta`: the pieces of messages in the journal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from deep_sessions import MemoryStore, SessionNotFound, delete
from deep_sessions.deltas import SECONDS
from deep_sessions.entries import read_entry
from deep_sessions.fold import fold

from plugins.sessions.tests.scripted import Scripted, create

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def run(store: MemoryStore, **config: Any) -> float:
    agent = await create(Scripted("x" * 3000), session_store=store, config={"session": config})
    began = asyncio.get_running_loop().time()
    async for _ in agent.run_stream("go", session_id="s"):
        pass
    return asyncio.get_running_loop().time() - began


async def test_O3_persist_delta_stores_the_pieces_in_few_batches() -> None:
    store = MemoryStore()
    seconds = await run(store, persist_delta=True)
    entries = await store.entries("s")
    batches = [read_entry(entry)["text"] for entry in entries if entry.kind == "deltas"]
    assert "".join(batches) == "x" * 3000
    assert len(batches) <= 1 + seconds / SECONDS
    assert sum(entry.kind == "messages" for entry in entries) == 1


async def test_O3_persist_delta_off_stores_the_message_alone() -> None:
    store = MemoryStore()
    await run(store)
    assert [entry.kind for entry in await store.entries("s")] == ["run_started", "messages", "run_ended"]


@pytest.mark.slow
async def test_O3_stored_pieces_are_never_what_a_session_is_loaded_from() -> None:
    with_pieces, without = MemoryStore(), MemoryStore()
    await run(with_pieces, persist_delta=True)
    await run(without)
    texts = [[m.parts for m in fold(await store.load("s")).messages()][1] for store in (with_pieces, without)]
    assert texts[0] == texts[1]


@pytest.mark.slow
async def test_O3_deleting_the_session_deletes_its_pieces() -> None:
    store = MemoryStore()
    await run(store, persist_delta=True)
    await delete(store, "s")
    with pytest.raises(SessionNotFound):
        await store.entries("s")
