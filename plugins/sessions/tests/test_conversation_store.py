"""Sessions as conversations of Pydantic AI: what a deep agent has run, and what it continues."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import Commit, DeepAgent, MemoryStore, SessionStore, SqliteStore, UsageError, open_conversations
from deep_sessions.entries import encode
from deep_sessions.journal import base_entry
from pydantic_ai import Agent
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from plugins.sessions.tests.deep_agents import create

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[SessionStore]:
    store = SqliteStore(tmp_path / "sessions.db")
    yield store
    await store.aclose()


@pytest.fixture
def view(store: SessionStore) -> Any:
    pytest.importorskip("pydantic_ai.conversation_store", reason="Pydantic AI 2.66 has ConversationStore")
    return open_conversations(store)


def counting() -> Agent[None, str]:
    """An agent of Pydantic AI that answers with the number of messages before."""

    def respond(messages: list[ModelMessage], info: object) -> ModelResponse:
        return ModelResponse([TextPart(f"after {len(messages)}")])

    async def stream(messages: list[ModelMessage], info: object) -> AsyncIterator[str]:
        yield f"after {len(messages)}"

    return Agent(FunctionModel(respond, stream_function=stream))


async def run(agent: DeepAgent, status: str = "completed") -> None:
    assert (await agent.run("level 0", session_id="s")).status == status


async def test_a_session_is_continued_by_an_agent_of_pydantic_ai_and_then_by_its_own(
    store: SessionStore, view: Any, tmp_path: Path
) -> None:
    agent = await create(store, tmp_path)
    await run(agent)
    loaded = await view.load("s")
    assert len(loaded.messages) == 6
    assert (loaded.usage.requests, loaded.usage.tool_calls) == (3, 2)
    result = await counting().run("and now?", conversation=loaded)
    assert result.output == "after 7"
    entries = await view.save(result)
    assert len(entries) == 2
    await run(agent)  # its process has the session loaded, and reads what was added
    again = await view.load_entries("s")
    assert [entry.id for entry in again[6:8]] == [entry.id for entry in entries]
    assert (await view.load("s")).usage.requests == 3 + 1 + 1
    assert "and now?" in str(again[6].message)


async def test_a_run_that_has_not_ended_is_not_a_conversation(store: SessionStore, view: Any) -> None:
    lease = await store.acquire("s")
    await store.commit(lease, Commit([encode("run_started", {"prompt": "go"}, "r1")], status="running"))
    await store.release(lease)
    with pytest.raises(UserError, match=r"session 's' has a run that has not ended: wait for it, or resume it"):
        await view.load("s")


async def test_calls_that_wait_are_in_the_conversation(store: SessionStore, view: Any, tmp_path: Path) -> None:
    agent = await create(store, tmp_path, asks=True)
    await run(agent, "awaiting_human")
    loaded = await view.load("s")
    assert [call.tool_name for call in loaded.deferred_tool_requests.approvals] == ["put"]
    assert isinstance(loaded.messages[-1], ModelResponse)


async def test_calls_that_a_failed_run_left_open_are_closed(store: SessionStore, view: Any, tmp_path: Path) -> None:
    async def abort() -> None:
        agent.abort(next(iter(agent.get_state().runs)))

    agent = await create(store, tmp_path, first=abort)
    await run(agent, "aborted")
    loaded = await view.load("s")
    assert [part.part_kind for part in loaded.messages[-1].parts] == ["tool-return"]
    result = await counting().run("go on", conversation=loaded)
    await view.save(result)
    messages = (await view.load("s")).messages
    assert isinstance(messages[2].parts[0], ToolReturnPart)
    await run(agent)


async def test_what_a_compaction_replaced_is_a_branch(store: SessionStore, view: Any, tmp_path: Path) -> None:
    await run(await create(store, tmp_path))
    before = await view.load_entries("s")
    lease = await store.acquire("s")
    await store.commit(lease, Commit([base_entry([ModelRequest([UserPromptPart("(cut)")])], {}, None, None)]))
    await store.release(lease)
    record = await view.read_record("s")
    assert len((await view.load("s")).messages) == 1
    assert record.branches == [before[-1].id]
    await view.branch("s", from_entry=before[-1].id, expected_revision=record.revision)
    assert await view.load_entries("s") == before


async def test_an_entry_is_found_when_its_conversation_was_read(store: SessionStore, view: Any, tmp_path: Path) -> None:
    await run(await create(store, tmp_path))
    with pytest.raises(LookupError, match="load its conversation first"):
        await view.read_entry("s#2.0")
    entries = await view.load_entries("s")
    assert await view.read_entry(entries[1].id) == entries[1]
    with pytest.raises(LookupError, match="no entry 'other'"):
        await view.read_history("other")


async def test_a_ui_adapter_keeps_its_conversations_in_sessions(store: SessionStore, view: Any) -> None:
    vercel_ai = pytest.importorskip("pydantic_ai.ui.vercel_ai", reason="pydantic-ai-slim[ui] is not installed")

    async def send(text: str) -> None:
        message = {"id": text, "role": "user", "parts": [{"type": "text", "text": text}]}
        body = {"trigger": "submit-message", "id": "chat", "messages": [message]}
        request = vercel_ai.VercelAIAdapter.build_run_input(json.dumps(body).encode())
        adapter = vercel_ai.VercelAIAdapter(
            agent=counting(), run_input=request, conversation_store=view, conversation_scope="ann"
        )
        assert [event async for event in adapter.run_stream()]

    await send("one")
    await send("two")
    loaded = await view.load("chat", scope="ann")
    assert [m.text for m in loaded.messages if isinstance(m, ModelResponse)] == ["after 1", "after 3"]
    assert (await store.info("chat")).owner == "ann"


def test_an_older_pydantic_ai_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "deep_sessions.conversation_store", raising=False)
    monkeypatch.setitem(sys.modules, "pydantic_ai.conversation_store", None)
    with pytest.raises(UsageError, match=r"needs Pydantic AI 2.66 or newer: pip install --upgrade"):
        open_conversations(MemoryStore())
