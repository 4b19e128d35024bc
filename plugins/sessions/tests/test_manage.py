"""Deleting, keeping, exporting, forking and rewinding sessions."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any
from uuid import uuid4

import deep_backends
import deep_sessions
import pytest
from deep_sessions import (
    AgentError,
    Commit,
    MemoryStore,
    NewEntry,
    Outcome,
    Runner,
    SessionBusy,
    SessionNotFound,
    SessionStore,
    SqliteStore,
    StoreError,
    session_capabilities,
    title_of,
)
from deep_sessions.branching import fork, rewind
from deep_sessions.events import MessageAdded, RunStarted, events_of
from deep_sessions.fold import fold
from deep_sessions.manage import rename
from deep_sessions.reading import export
from deep_sessions.removing import delete, retain
from pydantic_ai import FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from deep_core import Kernel, hookimpl
from tests.plugins_by_hand import plugin

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def store(tmp_path: Path) -> Any:
    store = SqliteStore(tmp_path / "sessions.db")
    yield store
    await store.aclose()


def answer(messages: list[ModelMessage], info: object) -> ModelResponse:
    """Answer with the user's prompts so far; call the tool that asks, if told to."""
    parts = [part for message in messages for part in message.parts if isinstance(part, UserPromptPart)]
    said = [str(part.content) for part in parts]
    asked = any(isinstance(part, UserPromptPart) for part in messages[-1].parts)
    if asked and said[-1] == "delete":
        return ModelResponse([ToolCallPart("remove", {}, f"c{len(said)}")])
    return ModelResponse([TextPart(" ".join(said))])


def runner(store: SessionStore) -> Runner:
    toolset: FunctionToolset[Any] = FunctionToolset(id="things")

    @toolset.tool_plain(metadata={"tags": ["write"]}, requires_approval=True)
    def remove() -> str:
        return "removed"

    kernel = Kernel(plugins=[deep_sessions, deep_backends, plugin("things", toolsets=[toolset])], discover=False)
    return Runner(
        kernel.create_agent(FunctionModel(answer), backend="memory", capabilities=session_capabilities()),
        store,
        kernel=kernel,
    )


async def run(store: SessionStore, session_id: str, prompt: str) -> Outcome:
    """Run one turn, as a fresh process does."""
    return await runner(store).run(session_id, prompt, run_id=uuid4().hex)


async def say(store: SessionStore, session_id: str, prompt: str) -> str:
    outcome = await run(store, session_id, prompt)
    assert outcome.result is not None
    return outcome.result.output


async def texts(store: SessionStore, session_id: str) -> list[str]:
    state = fold(await store.load(session_id))
    return [
        str(getattr(part, "content", getattr(part, "tool_name", "")))
        for message in state.messages()
        for part in message.parts
    ]


async def create(store: SessionStore, session_id: str, entries: int = 1) -> None:
    lease = await store.acquire(session_id)
    await store.commit(lease, Commit([NewEntry("note", b"{}")] * entries))
    await store.release(lease)


# -- fork and rewind ---------------------------------------------------------------------------------------------------


async def test_a_fork_continues_by_itself(store: SessionStore) -> None:
    await run(store, "s", "one")
    await run(store, "s", "two")
    before = await store.load("s")
    new = await fork(store, "s")
    assert await say(store, new, "three") == "one two three"
    assert await say(store, "s", "four") == "one two four"
    assert list((await store.entries("s"))[: len(before.entries)]) == list(before.entries)
    (base, *_) = await store.entries(new)
    assert base.base
    assert json.loads(base.data)["source"] == {"session": "s", "seq": before.info.seq}


async def test_the_events_of_a_fork_begin_with_what_was_said_before(store: SessionStore) -> None:
    await run(store, "s", "one")
    await run(store, "s", "two")
    new = await fork(store, "s")
    await run(store, new, "three")
    said: list[str] = []
    for entry in await store.entries(new):
        said += [event.text for event in events_of(entry) if isinstance(event, RunStarted | MessageAdded)]
    assert said == ["one", "one", "two", "one two", "three", "one two three"]
    assert await title_of(store, new) == "one"


async def test_a_fork_of_an_earlier_entry_has_that_state(store: SessionStore) -> None:
    await run(store, "s", "one")
    at = (await store.info("s")).seq
    await run(store, "s", "two")
    assert await fork(store, "s", at=at, new_id="earlier") == "earlier"
    assert await texts(store, "earlier") == ["one", "one"]
    assert await say(store, "earlier", "other") == "one other"


async def test_a_fork_and_a_rewind_cut_calls_that_wait(store: SessionStore) -> None:
    await run(store, "s", "one")
    outcome = await run(store, "s", "delete")
    assert outcome.status == "awaiting"
    paused = (await store.info("s")).seq
    new = await fork(store, "s")
    assert (await store.info(new)).status == "idle"
    assert await texts(store, new) == ["one", "one", "delete"]
    assert await say(store, new, "two") == "one delete two"
    await store.post("s", "decision", b'{"c2": {"approve": true}}')
    await store.post("s", "prompt", b'"later"')
    await rewind(store, "s", to=paused)
    stored = await store.load("s")
    assert (stored.info.status, dict(stored.ledger), [mail.kind for mail in stored.mail]) == ("idle", {}, ["prompt"])
    assert await texts(store, "s") == ["one", "one", "delete"]


async def test_a_rewind_is_an_entry_and_erases_nothing(store: SessionStore) -> None:
    await run(store, "s", "one")
    at = (await store.info("s")).seq
    await run(store, "s", "two")
    before = await store.entries("s")
    seq = await rewind(store, "s", to=at)
    after = await store.entries("s")
    assert list(after[:-1]) == list(before)
    assert (after[-1].seq, after[-1].base) == (seq, True)
    assert await say(store, "s", "other") == "one other"
    await rewind(store, "s", to=before[-1].seq)  # and forward again
    assert await say(store, "s", "three") == "one two three"


async def test_a_fork_belongs_to_the_same_owner(store: SessionStore) -> None:
    await run(store.for_owner("ann"), "s", "one")
    assert (await store.info(await fork(store, "s"))).owner == "ann"
    with pytest.raises(SessionNotFound):
        await fork(store.for_owner("bob"), "s")


@pytest.mark.parametrize("at", [-1, 0, 99])
async def test_a_state_that_does_not_exist_is_refused(store: SessionStore, at: int) -> None:
    await create(store, "s", 3)
    with pytest.raises(AgentError, match=r"no entry -?\d+: its entries are 1 to 3"):
        await fork(store, "s", at=at)
    if at:  # a session can be set back to before its first entry
        with pytest.raises(AgentError, match=r"no entry -?\d+: its entries are 1 to 3"):
            await rewind(store, "s", to=at)
    assert (await store.info("s")).holder is None


async def test_a_session_begins_anew_from_before_its_first_entry(store: SessionStore) -> None:
    await say(store.for_owner("ann"), "s", "one")
    await rename(store, "s", "Numbers")
    before = (await store.info("s")).seq
    await rewind(store, "s", to=0)
    info, state = await store.info("s"), fold(await store.load("s"))
    assert (info.owner, info.status, await title_of(store, "s"), state.messages()) == ("ann", "idle", "Numbers", [])
    assert await say(store.for_owner("ann"), "s", "two") == "two"
    await rewind(store, "s", to=before)  # what it forgot is kept
    assert (await texts(store, "s"))[0] == "one"


async def test_a_fork_never_writes_into_a_session_that_exists(store: SessionStore) -> None:
    for name in ("s", "other"):
        await create(store, name)
    with pytest.raises(AgentError, match="'other' exists"):
        await fork(store, "s", new_id="other")
    assert (await store.info("other")).seq == 1


async def test_a_running_session_can_be_forked_but_not_rewound(store: SessionStore) -> None:
    await create(store, "s", 2)
    await store.acquire("s")
    assert await fork(store, "s")
    with pytest.raises(SessionBusy):
        await rewind(store, "s", to=1)


# -- export ------------------------------------------------------------------------------------------------------------


async def test_an_export_has_everything(store: SessionStore) -> None:
    lease = await store.acquire("s")
    entries = [NewEntry("messages", '{"text": "日本語"}'.encode(), "r", 1, True), NewEntry("later", b"\xff\x00")]
    await store.commit(lease, Commit(entries, put={"tail:": b"[1]"}, status="awaiting"))
    await store.post("s", "prompt", b'"hello"')
    lines = [json.loads(line) async for line in export(store, "s")]
    assert [line["type"] for line in lines] == ["session", "entry", "entry", "ledger", "mail"]
    assert (lines[0]["id"], lines[0]["status"], lines[0]["seq"]) == ("s", "awaiting", 2)
    assert (lines[1]["data"], lines[1]["run_id"], lines[1]["base"]) == ({"text": "日本語"}, "r", True)
    assert lines[2]["data"] == {"base64": "/wA="}
    assert (lines[3]["key"], lines[3]["data"], lines[4]["data"]) == ("tail:", [1], "hello")


async def test_an_export_saves_what_is_whole(store: SessionStore, tmp_path: Path) -> None:
    await create(store, "s", 1200)
    with sqlite3.connect(tmp_path / "sessions.db") as file:
        file.execute("UPDATE entries SET data = x'7b7c' WHERE seq IN (3, 700, 701, 1200)")
    file.close()
    lines = [json.loads(line) async for line in export(store, "s")]
    whole = [line["seq"] for line in lines if line["type"] == "entry"]
    assert whole == [number for number in range(1, 1201) if number not in (3, 700, 701, 1200)]
    damaged = [line for line in lines if line["type"] == "damaged"]
    assert [line.get("entries") for line in damaged] == [[3], [700, 701], [1200], None]
    assert "entry 3 of session s is damaged" in damaged[-1]["reason"]
    with pytest.raises(StoreError, match="entry 3 is damaged"):
        await fork(store, "s", at=10)
    assert await fork(store, "s", at=2)


# -- delete and retain -------------------------------------------------------------------------------------------------


class Keeper:
    """A plugin that keeps something of each session."""

    def __init__(self) -> None:
        self.told: list[str] = []

    @hookimpl(of="sessions")
    async def deep_session_deleted(self, session_id: str, context: Any) -> None:
        self.told.append(f"{context.plugin}: {session_id}")


class Careless:
    """A plugin that fails, before the others are told."""

    @hookimpl(of="sessions", tryfirst=True)
    def deep_session_deleted(self) -> None:
        raise RuntimeError("cannot")


async def test_deleting_erases_folders_and_tells_plugins(store: SessionStore, tmp_path: Path) -> None:
    keeper = Keeper()
    with Kernel(plugins=[deep_sessions, keeper, Careless()], discover=False, data_dir=tmp_path / "data") as kernel:
        for name in ("Ann's chat", "other"):
            await create(store, name)
            (kernel.context("keeper").session_dir(name) / "notes").write_text(name)
            (tmp_path / "work" / name).mkdir(parents=True)
        await delete(store, "other", kernel=kernel, roots=[tmp_path / "work"])
        assert keeper.told == ["keeper: other"]
        assert [incident.plugin for incident in kernel.incidents] == ["careless"]
    assert [folder.name for folder in (tmp_path / "work").iterdir()] == ["Ann's chat"]
    assert len([*(tmp_path / "data").glob("plugins/keeper/sessions/*/notes")]) == 1
    assert [info.id for info in await store.list()] == ["Ann's chat"]


async def test_a_session_of_another_owner_keeps_its_folders(tmp_path: Path) -> None:
    store = MemoryStore()
    await create(store.for_owner("ann"), "s")
    (tmp_path / "s").mkdir()
    with pytest.raises(SessionNotFound):
        await delete(store.for_owner("bob"), "s", roots=[tmp_path])
    assert (tmp_path / "s").is_dir()


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    store = MemoryStore()
    await create(store, "s")
    (tmp_path / "mine").mkdir()
    (tmp_path / "s").symlink_to(tmp_path / "mine")
    await delete(store, "s", roots=[tmp_path])
    assert (tmp_path / "mine").is_dir()


async def test_a_running_session_is_not_deleted(tmp_path: Path) -> None:
    store = MemoryStore()
    await store.acquire("s")
    (tmp_path / "s").mkdir()
    with pytest.raises(SessionBusy):
        await delete(store, "s", roots=[tmp_path])
    assert (tmp_path / "s").is_dir()


async def test_the_latest_sessions_are_kept(store: SessionStore) -> None:
    for number in range(6):
        await create(store, f"s{number}")
    await store.acquire("s1")  # it runs
    assert await retain(store, keep=3) == ["s2", "s0"]
    assert [info.id for info in await store.list()] == ["s5", "s4", "s3", "s1"]


async def test_old_sessions_are_deleted(store: SessionStore, monkeypatch: pytest.MonkeyPatch) -> None:
    await create(store.for_owner("ann"), "ann's")
    await create(store.for_owner("bob"), "bob's")
    assert await retain(store, older_than=3600) == []
    now = (await store.info("bob's")).updated_at
    monkeypatch.setattr("time.time", lambda: now + 7200)
    assert await retain(store.for_owner("ann"), older_than=3600) == ["ann's"]
    assert [info.id for info in await store.list()] == ["bob's"]
    with pytest.raises(ValueError, match="older_than= or keep="):
        await retain(store)


# -- titles ------------------------------------------------------------------------------------------------------------


async def test_a_title_stays_over_runs_forks_and_rewinds_until_it_is_taken_back(store: SessionStore) -> None:
    with pytest.raises(SessionNotFound):
        await rename(store, "s", "nothing")
    await run(store, "s", "one")
    assert await title_of(store, "s") == "one"
    first = (await store.load("s")).info.seq
    await rename(store, "s", "  My\n title ")
    await run(store, "s", "two")
    assert await title_of(store, "s") == "My title"
    assert await title_of(store, await fork(store, "s", new_id="copy")) == "My title"
    await rewind(store, "s", to=first)
    assert await title_of(store, "s") == "My title"
    await rename(store, "s", "Another")
    assert await title_of(store, "s") == "Another"
    assert await title_of(store, "copy") == "My title"
    await rename(store, "s", "")
    assert await title_of(store, "s") == "one"


async def test_a_title_of_a_session_that_another_process_runs_is_refused(store: SessionStore) -> None:
    await run(store, "s", "one")
    lease = await store.acquire("s")
    with pytest.raises(SessionBusy):
        await rename(store, "s", "mine")
    await store.release(lease)
