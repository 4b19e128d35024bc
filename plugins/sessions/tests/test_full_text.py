"""Full-text search over stored conversations: the same in every store, and nothing of it outlives a session."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from deep_sessions import (
    MemoryStore,
    Runner,
    SessionStore,
    SqliteStore,
    create,
    delete,
    find_messages,
    fork,
    session_capabilities,
)
from deep_sessions.full_text import excerpt, words_in
from deep_sessions.stores import sqlite_words
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import FunctionModel

from deep_core import Kernel
from plugins.sessions.tests.stores import open_for_test

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
async def store(request: Any, tmp_path: Path) -> AsyncGenerator[SessionStore]:
    match request.param:
        case "memory":
            made: SessionStore = MemoryStore()
        case "sqlite":
            made = SqliteStore(tmp_path / "sessions.db")
        case _:
            made = open_for_test(request.getfixturevalue("postgresql").create_database())
    yield made
    await made.aclose()


def talk(*texts: str) -> list[ModelMessage]:
    """A conversation: the user begins."""
    sides: list[ModelMessage] = []
    for place, text in enumerate(texts):
        sides.append(ModelResponse([TextPart(text)]) if place % 2 else ModelRequest([UserPromptPart(text)]))
    return sides


async def found(store: SessionStore, words: str, **how: Any) -> list[tuple[str, str]]:
    """The sessions and texts that have the words, sorted."""
    return sorted((each.session_id, each.text) for each in await find_messages(store, words, **how))


async def test_all_words_are_found_by_how_they_begin_in_any_case_and_order(store: SessionStore) -> None:
    await create(store, "one", talk("How do we round cents?", "With Decimal, in money.py."))
    await create(store, "two", talk("Wie rundet man ÄPFEL?", "Gar nicht: to_cents(2) is enough."))
    assert await found(store, "cents ROUND") == [("one", "How do we round cents?")]
    assert await found(store, "dec mon") == [("one", "With Decimal, in money.py.")]
    assert await found(store, "money.py") == [("one", "With Decimal, in money.py.")]
    assert await found(store, "to_cents") == [("two", "Gar nicht: to_cents(2) is enough.")]
    assert await found(store, "äpfel") == [("two", "Wie rundet man ÄPFEL?")]
    assert {name for name, _ in await found(store, "cents")} == {"one", "two"}
    assert await found(store, "round nowhere") == []
    assert len(await find_messages(store, "cents", limit=1)) == 1


@pytest.mark.parametrize(
    "words", ["", "  ", '"', "'", "*", "AND OR NOT", "cents)", '"cents" OR', "(", "& | !", ":*", "\0", "%"]
)
async def test_no_question_is_an_error(store: SessionStore, words: str) -> None:
    await create(store, "one", talk("How do we round cents?", "So."))
    assert isinstance(await find_messages(store, words), list)


async def test_what_a_run_writes_is_found_once_and_after_it_too(store: SessionStore) -> None:
    def answer(messages: list[ModelMessage], info: Any) -> ModelResponse:
        asked = [part for part in messages[-1].parts if isinstance(part, UserPromptPart)]
        if asked and "lists" in str(asked[-1].content):
            return ModelResponse([ToolCallPart("look", {"path": "orchard"}, "c1")])
        return ModelResponse([TextPart(f"answer {len(messages)}")])

    def look(path: str) -> str:
        """Look."""
        return "nothing"

    with Kernel(plugins=[], read_config=False, discover=False) as kernel:
        made = kernel.create_agent(FunctionModel(answer), tools=[look], capabilities=session_capabilities())
        runner = Runner(made, store, kernel=kernel)
        await runner.run("one", "It lists apples.", run_id="a")
        assert await found(store, "apples") == [("one", "It lists apples.")]
        assert [each.role for each in await find_messages(store, "orchard")] == ["tool"]
        await runner.run("one", "And pears.", run_id="b")
        assert await found(store, "apples") == [("one", "It lists apples.")]
        assert await found(store, "pears") == [("one", "And pears.")]


async def test_owners_see_their_own_and_what_is_deleted_is_gone(store: SessionStore) -> None:
    ann, ben = store.for_owner("ann"), store.for_owner("ben")
    await create(ann, "one", talk("A secretword of Ann.", "Yes."))
    await create(ben, "two", talk("A secretword of Ben.", "Yes."))
    assert await found(ann, "secretword") == [("one", "A secretword of Ann.")]
    assert await found(ben, "secretword") == [("two", "A secretword of Ben.")]
    copy = await fork(ann, "one")
    assert {name for name, _ in await found(store, "secretword")} == {"one", "two", copy}
    await delete(store, "one")
    await delete(store, copy)
    assert await found(store, "secretword") == [("two", "A secretword of Ben.")]


async def test_an_erased_word_is_not_in_the_file(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    await create(store, "one", talk("The word is xylophonist.", "I see."))
    assert await found(store, "xylophonist")
    await store.delete("one")
    await store.aclose()
    assert not any(b"xylophonist" in file.read_bytes() for file in tmp_path.iterdir())


async def test_a_session_that_an_earlier_version_deleted_is_dropped_at_the_next_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "sessions.db")
    await create(store, "one", talk("The word is xylophonist.", "I see."))
    assert await found(store, "xylophonist")
    with monkeypatch.context() as patch:
        patch.setattr("deep_sessions.stores.sqlite.drop", lambda db, key: None)
        await store.delete("one")
    await create(store, "two", talk("Another one.", "I see."))
    assert await found(store, "xylophonist") == []
    assert await found(store, "another")
    await store.aclose()


async def test_without_fts5_it_reads_every_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_words, "TABLES", ("CREATE VIRTUAL TABLE words USING no_such_module(text)",))
    store = SqliteStore(tmp_path / "sessions.db")
    await create(store, "one", talk("How do we round cents?", "So."))
    assert await found(store, "cents") == [("one", "How do we round cents?")]
    await store.aclose()


def test_an_excerpt_shows_the_word() -> None:
    text = "a " * 200 + "needle" + " b" * 200
    assert "needle" in excerpt(text, ["need"])
    assert len(excerpt(text, ["need"])) < 140
    assert words_in("Don't to_cents(2)") == ["don", "t", "to", "cents", "2"]
