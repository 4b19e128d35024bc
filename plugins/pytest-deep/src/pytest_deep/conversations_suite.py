"""The part of `SessionStoreConformance` about a store's view as Pydantic AI's `ConversationStore`."""

# A test suite: its checks are assertions.
# ruff: noqa: S101

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import pytest
from deep_sessions import SessionStore, open_conversations
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.usage import RunUsage

if TYPE_CHECKING:
    from pydantic_ai.conversation import Conversation
    from pydantic_ai.conversation_store import ConversationStore

__all__ = ["ConversationsConformance"]


def turn(text: str) -> list[ModelMessage]:
    """Return a prompt and its answer."""
    return [ModelRequest([UserPromptPart(text)]), ModelResponse([TextPart(f"{text}!")])]


def texts(conversation: Conversation | None) -> str:
    """Return the prompts of a conversation."""
    assert conversation is not None, "the conversation is gone"
    parts = [part for message in conversation.messages for part in message.parts]
    return " ".join(str(part.content) for part in parts if isinstance(part, UserPromptPart))


class ConversationsConformance:
    """The tests of `open_conversations(store)`."""

    @pytest.fixture
    def view(self, store: SessionStore) -> ConversationStore:
        """The store under test, as conversations. Not a mark of the class, which its subclasses would have too."""
        if importlib.util.find_spec("pydantic_ai.conversation_store") is None:
            pytest.skip("Pydantic AI 2.66 has ConversationStore")
        return open_conversations(store)

    def test_a_conversation_is_saved_and_loaded(self, view: ConversationStore) -> None:
        """Its messages, its usage and the ids of its entries come back; a save appends."""

        async def use() -> None:
            first = await save(view, "s", "one", usage=RunUsage(requests=1, input_tokens=7))
            loaded = await view.load("s")
            assert loaded is not None
            assert (loaded.messages, loaded.usage, loaded.revision) == (first.messages, first.usage, first.revision)
            loaded.messages += turn("two")
            entries = await view.save(loaded)
            assert texts(await view.load("s")) == "one two"
            all_entries = await view.load_entries("s")
            assert all_entries is not None
            assert [entry.id for entry in all_entries[2:]] == [entry.id for entry in entries]
            assert [entry.parent_id for entry in all_entries] == [None, *(entry.id for entry in all_entries[:-1])]
            assert await view.save(loaded) == []
            assert await view.load("other") is None

        asyncio.run(use())

    def test_a_window_is_continued(self, view: ConversationStore) -> None:
        """Who loads the last messages only, and saves, appends to the whole conversation."""

        async def use() -> None:
            await save(view, "s", "one", "two")
            window = await view.load("s", limit=2)
            assert texts(window) == "two"
            assert window is not None
            window.messages += turn("three")
            await view.save(window)
            assert texts(await view.load("s")) == "one two three"

        asyncio.run(use())

    def test_of_two_who_save_one_is_refused(self, view: ConversationStore, store: SessionStore) -> None:
        """Nothing of the second is written, nor of who saves while a runner has the session."""

        async def use() -> None:
            await save(view, "s", "one")
            first, second = await view.load("s"), await view.load("s")
            assert first is not None
            assert second is not None
            first.messages += turn("first")
            second.messages += turn("second")
            await view.save(first)
            await refused(view.save(second))
            await refused(save(view, "s", "from the beginning"))
            lease = await store.acquire("s")
            first.messages += turn("more")
            await refused(view.save(first))
            await store.release(lease)
            assert texts(await view.load("s")) == "one first"
            await view.save(first)
            assert texts(await view.load("s")) == "one first more"

        asyncio.run(use())

    def test_a_conversation_branches_and_comes_back(self, view: ConversationStore) -> None:
        """The history that it left stays stored, under the same ids."""

        async def use() -> None:
            saved = await save(view, "s", "one", "two")
            before = await view.load_entries("s")
            assert before is not None
            branched = await view.branch("s", at=2, expected_revision=saved.revision)
            branched.messages += turn("other")
            await view.save(branched)
            assert texts(await view.load("s")) == "one other"
            record = await view.read_record("s")
            assert record is not None
            assert before[-1].id in record.branches
            back = await view.branch("s", from_entry=before[-1].id, expected_revision=record.revision)
            assert texts(back) == "one two"
            assert await view.load_entries("s") == before
            rewritten = await view.load("s")
            assert rewritten is not None
            rewritten.messages[:] = turn("anew")
            await view.save(rewritten)
            assert texts(await view.load("s")) == "anew"

        asyncio.run(use())

    def test_a_conversation_is_forked(self, view: ConversationStore) -> None:
        """The fork shares the entries; both go on by themselves."""

        async def use() -> None:
            await save(view, "s", "one", "two")
            forked = await view.fork("s", at=2, new_conversation_id="fork")
            forked.messages += turn("other")
            await view.save(forked)
            assert (texts(await view.load("s")), texts(await view.load("fork"))) == ("one two", "one other")
            one, other = await view.load_entries("s"), await view.load_entries("fork")
            assert one is not None
            assert other is not None
            assert [entry.id for entry in other[:2]] == [entry.id for entry in one[:2]]
            record = await view.read_record("fork")
            assert record is not None
            assert (record.forked_from, record.forked_at) == ("s", one[1].id)
            await refused(view.fork("s", new_conversation_id="fork"))
            await view.delete("s")
            assert texts(await view.load("fork")) == "one other"

        asyncio.run(use())

    def test_a_scope_is_an_owner(self, view: ConversationStore, store: SessionStore) -> None:
        """A conversation of another owner does not exist."""

        async def use() -> None:
            await save(view, "ann's", "one", scope="ann")
            await save(view, "nobody's", "two")
            assert (await store.info("ann's")).owner == "ann"
            assert await view.load("ann's", scope="bob") is None
            bob = open_conversations(store.for_owner("bob"))
            assert await bob.load("ann's") is None
            await refused(save(view, "ann's", "mine", scope="bob"))
            await refused(save(bob, "ann's", "mine"))
            assert [record.conversation_id for record in await view.list_conversations(scope="ann")] == ["ann's"]
            assert len(await view.list_conversations()) == 2
            assert [record.conversation_id for record in await view.list_conversations(limit=1)] == ["nobody's"]
            assert await bob.list_conversations() == []
            await view.delete("ann's", scope="bob")
            assert texts(await view.load("ann's", scope="ann")) == "one"

        asyncio.run(use())

    def test_a_deleted_conversation_is_gone(self, view: ConversationStore) -> None:
        """One that is created again under its id is another: an old copy is not saved over it."""

        async def use() -> None:
            old = await save(view, "s", "one")
            await view.delete("s")
            assert await view.load("s") is None
            assert await view.list_conversations() == []
            await save(view, "s", "two")
            old.messages += turn("three")
            await refused(view.save(old))
            assert texts(await view.load("s")) == "two"

        asyncio.run(use())

    def test_calls_that_wait_are_kept(self, view: ConversationStore, store: SessionStore) -> None:
        """The session waits for decisions, and no more when a later save has none."""

        async def use() -> None:
            from pydantic_ai.conversation import Conversation

            call = ToolCallPart("put", {"n": 1}, "c1")
            requests = DeferredToolRequests(approvals=[call], metadata={"c1": {"why": "it writes"}})
            messages: list[ModelMessage] = [ModelRequest([UserPromptPart("go")]), ModelResponse([call])]
            await view.save(Conversation(messages=messages, conversation_id="s", deferred_tool_requests=requests))
            assert (await store.info("s")).status == "awaiting"
            loaded = await view.load("s")
            assert loaded is not None
            assert (loaded.messages, loaded.deferred_tool_requests) == (messages, requests)
            loaded.deferred_tool_requests = None
            loaded.messages += turn("never mind")
            await view.save(loaded)
            assert (await store.info("s")).status == "idle"
            again = await view.load("s")
            assert again is not None
            assert again.deferred_tool_requests is None

        asyncio.run(use())


async def save(view: ConversationStore, name: str, *prompts: str, scope: str | None = None, **how: Any) -> Conversation:
    """Save a new conversation."""
    from pydantic_ai.conversation import Conversation

    messages = [message for prompt in prompts for message in turn(prompt)]
    conversation = Conversation(messages=messages, conversation_id=name, **how)
    await view.save(conversation, scope=scope)
    return conversation


async def refused(saving: Awaitable[object]) -> None:
    """Check that a save raises ConversationConflict."""
    from pydantic_ai.conversation_store import ConversationConflict

    with pytest.raises(ConversationConflict):
        await saving
