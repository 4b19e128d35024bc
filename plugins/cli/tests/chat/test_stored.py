"""Chats in a store of sessions: their ids, finding one, and a store that fails at any write."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deep_cli.chat.stored import ChatRuns, StoredChat, chats_folder, find_chat, new_id, project, short_id
from deep_cli.failure import Failure
from deep_cli.run.agent import make_agent
from deep_sessions import Commit, Lease, MemoryStore, NewEntry, Run, SessionStore, StoreError, create
from pydantic_ai import FunctionToolset
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, UserPromptPart

from deep_core import Kernel
from tests.plugins_by_hand import plugin
from tests.stubs import Call, Script, function_model

HELLO = [ModelRequest([UserPromptPart("hello")]), ModelResponse([TextPart("one")])]


def begin(store: SessionStore, folder: str = "/a/project", **labels: str) -> str:
    """Store a chat of a folder; return its id."""

    chat = StoredChat(new_id(folder), folder, labels.get("model"), labels.get("backend"))
    run = Run("r", status="completed", labels={**chat.labels})
    asyncio.run(create(store, chat.id, HELLO, run=run))
    return chat.id


def find(store: SessionStore, resume: str = "newest", folder: str = "/a/project") -> StoredChat:
    return asyncio.run(find_chat(store, resume, folder))


# -- ids ---------------------------------------------------------------------------------------------------------------


def test_an_id_names_the_folder_and_ends_with_the_digits_that_people_type() -> None:
    session = new_id("/a/my project")
    assert re.fullmatch(r"my_project-[0-9a-f]{12}\.[0-9a-f]{8}", session)
    assert new_id("/a/my project", short_id(session)) == session
    assert project("/a/my project") != project("/b/my project")


def test_a_chat_is_found_by_its_digits_by_its_whole_id_and_as_the_newest_of_its_folder() -> None:
    store = MemoryStore()
    session = begin(store, model="openai:x", backend="local")
    begin(store, "/b/project")
    for resume in (short_id(session), session, "newest"):
        found = find(store, resume)
        assert (found.id, found.model, found.backend, found.unfinished) == (session, "openai:x", "local", "")
        assert sum(isinstance(message, ModelResponse) for message in found.messages) == 1


def test_the_newest_is_the_one_used_last_and_no_session_that_deep_run_named() -> None:
    store = MemoryStore()
    first, _ = begin(store), begin(store)

    async def use() -> None:
        for session in (first, f"{project('/a/project')}.notes"):
            lease = await store.acquire(session)
            await store.commit(lease, Commit([NewEntry("note", b"{}")]))
            await store.release(lease)

    asyncio.run(use())
    assert find(store).id == first


def test_the_newest_is_none_that_a_page_opened_and_left_empty() -> None:
    store = MemoryStore()
    session = begin(store)
    empty = new_id("/a/project")
    asyncio.run(create(store, empty, []))
    assert find(store).id == session
    assert find(store, empty).id == empty


def test_a_chat_of_another_folder_says_where_it_belongs() -> None:
    store = MemoryStore()
    session = begin(store, "/a/gr\udcfc")  # a name in Latin-1, as Python reads it
    assert find(store, folder="/a/gr\udcfc").id == session
    for resume in (session, short_id(session)):
        with pytest.raises(
            Failure, match=rf"it began in /a/gr.*: cd there, then deep chat --resume {short_id(session)}"
        ):
            find(store, resume, "/a/other")


def test_chats_in_files_of_an_earlier_version_say_how_to_import_them() -> None:
    file = chats_folder() / project("/a/project") / "0123abcd.json"
    file.parent.mkdir(parents=True)
    file.touch()
    for resume in ("newest", "0123abcd"):
        with pytest.raises(Failure, match="type: deep sessions import-chats"):
            find(MemoryStore(), resume)
    with pytest.raises(Failure, match="no chat of /b/project"):
        find(MemoryStore(), folder="/b/project")


def test_a_store_that_cannot_be_read_is_one_error() -> None:
    with pytest.raises(Failure, match="cannot be read: the disk is gone"):
        find(Failing(0, reads=False))


# -- a store that fails ------------------------------------------------------------------------------------------------


TURNS = ("first", "second", "third")


class Failing(MemoryStore):
    """A store that takes so many commits, and then none; then it can be read or not."""

    def __init__(self, commits: int, *, reads: bool) -> None:
        super().__init__()
        self._commits = commits
        self._reads = reads
        self._fails = commits < 1

    def _check(self, fails: bool) -> None:
        if fails:
            raise StoreError("the disk is gone")

    async def acquire(self, *args: Any, **more: Any) -> Lease:
        self._check(self._fails)
        return await super().acquire(*args, **more)

    async def commit(self, lease: Lease, commit: Commit) -> int:
        self._commits -= 1
        self._fails = self._commits < 0
        self._check(self._fails)
        return await super().commit(lease, commit)

    async def load(self, session_id: str) -> Any:
        self._check(self._fails and not self._reads)
        return await super().load(session_id)

    async def list(self, **more: Any) -> Any:
        self._check(self._fails and not self._reads)
        return await super().list(**more)


@pytest.fixture
def ran() -> list[int]:
    """One for each time that the tool ran."""
    return []


@pytest.fixture
def kernel(ran: list[int]) -> Iterator[Kernel]:
    def burn() -> str:
        "Do something that cannot be undone."
        ran.append(1)
        return "burnt"

    toolset = FunctionToolset([burn], id="things", metadata={"tags": ["write"]})
    with Kernel(plugins=[plugin("things", toolsets=[toolset])]) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("reads", [True, False])
@pytest.mark.parametrize("commits", [*range(7), 99])
def test_whenever_the_store_fails_the_chat_continues_and_nothing_is_done_twice(
    kernel: Kernel, ran: list[int], commits: int, reads: bool
) -> None:
    script = Script("one", Call("burn", {}), "two", "three", then="again")
    setup = make_agent(kernel, function_model(script), "local", is_stored=True)
    told: list[str] = []
    folder = str(Path.cwd())
    chat = StoredChat(new_id(folder), folder)

    async def talk() -> None:
        runs = ChatRuns(Failing(commits, reads=reads), kernel, setup.modes, lambda _: None, told.append)
        for text in TURNS:
            try:
                outcome = await runs.send(chat, text)
            except StoreError:  # what the turn did cannot be read: the user decides whether to send it again
                assert not reads
                return
            assert outcome.status == "completed", outcome.error
            chat.messages = outcome.messages

    asyncio.run(talk())
    assert told == (["the disk is gone"] if commits < 99 else [])
    assert len(ran) <= 1
    if reads:
        said = [part.content for m in chat.messages for part in m.parts if isinstance(part, UserPromptPart)]
        assert said == [*TURNS]
