"""Histories that became shorter are stored: at an overflow, and where a person asks for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import deep_backends
import deep_sessions
import deep_summarization
import pytest
from deep_sessions import (
    AgentDeps,
    Commit,
    DecisionsPending,
    DeepAgent,
    NotCompacted,
    SessionNotFound,
    Sessions,
    SessionStore,
    UsageError,
    load_session,
    open_store,
)
from deep_sessions.entries import encode
from deep_sessions.requests import windows
from deep_sessions.requests.overflow import tokens_of
from pydantic_ai import DeferredToolResults
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel

pytestmark = pytest.mark.anyio
WINDOW = 6_000
LONG = "The ebb begins at six, and the ferry leaves at seven. " * 60
Answer = str | list[ToolCallPart] | Exception


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_windows(monkeypatch)


def forget_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Know as little of windows as a new process."""
    monkeypatch.setattr(windows, "_KNOWN", {})


class Provider:
    """Answers as `answer` says, writes summaries, and refuses what is larger than its window."""

    def __init__(self, answer: Callable[[list[ModelMessage]], Answer] = lambda messages: "Noted.") -> None:
        self.answer = answer
        self.window: int | None = WINDOW
        self.refused = 0
        self.asked: list[list[ModelMessage]] = []
        self.summaries: list[str] = []

    def respond(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        text = said(messages)
        if "has grown too long" in text[-1]:
            self.summaries.append(text[-1])
            return ModelResponse([TextPart("Tides were noted.")])
        size = tokens_of(messages)
        if self.window is not None and size > self.window:
            self.refused += 1
            words = f"request ({size} tokens) exceeds the available context size ({self.window} tokens)"
            raise ModelHTTPError(400, "m", {"message": words})
        self.asked.append([*messages])
        answer = self.answer(messages)
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse([TextPart(answer)] if isinstance(answer, str) else [*answer])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield self.respond(messages, info).text or ""


def said(messages: list[ModelMessage]) -> list[str]:
    """What users said."""
    parts = (part for message in messages for part in message.parts if isinstance(part, UserPromptPart))
    texts = (part.content if isinstance(part.content, str) else str(part.content) for part in parts)
    return [text for text in texts if text]


async def agent_of(
    provider: Provider,
    store: SessionStore,
    *tools: Any,
    plugins: tuple[Any, ...] = (deep_summarization,),
    **config: Any,
) -> DeepAgent:
    kernel = Kernel(plugins=[deep_sessions, deep_backends, *plugins], discover=False)
    model = FunctionModel(provider.respond, stream_function=provider.stream, model_name="m")
    return await DeepAgent.create(
        deps=AgentDeps(model=model, session_store=store, kernel=kernel), tools=tools, config=config
    )


async def talk(agent: DeepAgent, turns: int, session: str = "s") -> None:
    for turn in range(turns):
        assert (await agent.run(f"Note {turn}: {LONG}", session_id=session)).status == "completed"


@pytest.fixture(params=["memory:", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Any) -> AsyncIterator[SessionStore]:
    url = request.param if request.param == "memory:" else f"sqlite:///{tmp_path}/sessions.db"
    opened = open_store(url)
    yield opened
    await opened.aclose()


# -- at an overflow ----------------------------------------------------------------------------------------------------


async def test_what_an_overflow_compacted_is_stored_and_another_process_does_not_overflow(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = Provider()
    first = await agent_of(provider, store)
    while not provider.refused:
        await talk(first, 1)

    state = await load_session(store, "s")
    assert "Tides were noted." in str(state.messages()[0])
    assert tokens_of(state.messages()) < WINDOW
    forget_windows(monkeypatch)
    assert (await (await agent_of(provider, store)).run("More.", session_id="s")).status == "completed"
    assert (provider.refused, len(provider.summaries)) == (1, 1)


async def test_an_attempt_after_a_failure_begins_with_what_the_overflow_compacted(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The summary was paid for: whatever ends the run next, it is not made again."""
    fails = [ModelHTTPError(401, "m")]
    put: list[int] = []

    def answer(messages: list[ModelMessage]) -> Answer:
        if provider.refused and fails:
            return fails.pop()
        last = messages[-1]
        if said([last])[-1:] == ["Go."] or (provider.refused and not put):
            return [ToolCallPart("put", {"n": 1})]
        return "Noted."

    async def put_it(n: int) -> str:
        put.append(n)
        return LONG * 3

    put_it.__name__ = "put"
    provider = Provider(answer)
    first = await agent_of(provider, store, put_it)
    while tokens_of((await load_session(store, "s")).messages() if put or provider.asked else []) < WINDOW - 2_500:
        await talk(first, 1)
    failed = await first.run("Go.", session_id="s")
    assert (failed.status, provider.refused, put) == ("failed", 1, [1])

    forget_windows(monkeypatch)
    second = await (await agent_of(provider, store, put_it)).retry("s")

    assert second.status == "completed"
    assert (provider.refused, len(provider.summaries), put) == (1, 1, [1])
    state = await load_session(store, "s")
    assert sum(text == "Go." for text in said(state.messages())) == 1


async def test_an_overflow_that_compaction_cannot_mend_names_the_largest_parts(store: SessionStore) -> None:
    provider = Provider()
    agent = await agent_of(provider, store)
    await talk(agent, 3)
    provider.window = 2  # "One more." has two tokens, and something of what was said is always before it

    result = await agent.run("One more.", session_id="s")

    assert result.status == "failed"
    assert result.error is not None
    assert (result.finish_reason, result.code) == ("overflow", "window_full")
    assert "Its largest parts, in tokens: " in result.error.message
    assert "deep explain" in result.error.message
    provider.window = WINDOW
    assert (await agent.retry("s")).status == "completed"


# -- by hand -----------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_compact_makes_the_stored_conversation_shorter_and_keeps_what_was_asked_for(store: SessionStore) -> None:
    provider = Provider()
    async with Sessions(await agent_of(provider, store)) as sessions:
        await talk(sessions.agent, 5)
        used = await sessions.agent.runner.usage("s")

        done = await sessions.compact("s", "the time of the ferry")

        assert "The user asks to keep above all: the time of the ferry" in provider.summaries[0]
        assert done.messages == 10
        assert done.after * 2 < done.before
        assert "10 messages are summarized" in str(done)
        assert (await store.info("s")).status == "idle"
        assert (await sessions.agent.runner.usage("s")).requests == used.requests + 1
        kinds = [event.kind async for event in sessions.stream("s", follow=False)]
        assert kinds.count("history_replaced") == 1
        assert kinds.count("run_started") == 5
        assert (await sessions.agent.run("And now?", session_id="s")).status == "completed"
    assert said(provider.asked[-1])[-1] == "And now?"
    assert "Tides were noted." in said(provider.asked[-1])[0]
    assert len(provider.asked[-1]) == 1  # the summary and the message, merged for the wire
    assert "Note 0" in str([entry.data for entry in await store.entries("s")])  # the journal keeps what was there


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_compact_after_a_failure_leaves_what_retry_goes_on_from(store: SessionStore) -> None:
    fails = [ModelHTTPError(401, "m")]
    put: list[int] = []

    def answer(messages: list[ModelMessage]) -> Answer:
        if put:
            return fails.pop() if fails else "Done."
        return [ToolCallPart("put", {"n": 1})] if said(messages)[-1] == "Go." else "Noted."

    async def put_it(n: int) -> str:
        put.append(n)
        return "did"

    put_it.__name__ = "put"
    provider = Provider(answer)
    agent = await agent_of(provider, store, put_it)
    await talk(agent, 2)
    assert (await agent.run("Go.", session_id="s")).status == "failed"

    await agent.compact("s")

    result = await agent.retry("s")
    assert (result.status, result.message, put) == ("completed", "Done.", [1])


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_compact_after_a_first_request_that_failed_leaves_its_message(store: SessionStore) -> None:
    fails: list[Exception] = []
    provider = Provider(lambda messages: fails.pop() if fails else "Noted.")
    agent = await agent_of(provider, store)
    await talk(agent, 2)
    fails.append(ModelHTTPError(401, "m"))
    assert (await agent.run("Go.", session_id="s")).status == "failed"

    await agent.compact("s")

    assert (await agent.retry("s")).status == "completed"
    assert said(provider.asked[-1])[-1] == "Go."
    assert sum("Go." in text for text in said((await load_session(store, "s")).messages())) == 1


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_compact_says_why_it_does_nothing(store: SessionStore) -> None:
    provider = Provider()
    agent = await agent_of(provider, store)
    with pytest.raises(SessionNotFound):
        await agent.compact("s")
    await agent.run("Hi.", session_id="s")
    with pytest.raises(NotCompacted, match="not fewer than"):
        await agent.compact("s")
    bare = await agent_of(provider, store, plugins=())
    with pytest.raises(NotCompacted, match="pip install deep-summarization"):
        await bare.compact("s")
    assert len((await load_session(store, "s")).messages()) == 2


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_compact_that_fails_changes_nothing(store: SessionStore) -> None:
    provider = Provider()
    agent = await agent_of(provider, store)
    await talk(agent, 2)
    before = await store.entries("s")
    provider.respond = lambda messages, info: (_ for _ in ()).throw(ModelHTTPError(401, "m"))  # type: ignore[method-assign]
    broken = await agent_of(provider, store)
    with pytest.raises(NotCompacted, match="the summary call failed"):
        await broken.compact("s")
    assert await store.entries("s") == before


@pytest.mark.skipif(hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI below 2.64")
async def test_compact_says_which_pydantic_ai_it_needs(store: SessionStore) -> None:
    provider = Provider()
    agent = await agent_of(provider, store)
    await agent.run("Hi.", session_id="s")
    with pytest.raises(NotCompacted, match=r"needs Pydantic AI 2\.64"):
        await agent.compact("s")
    assert len(provider.asked) == 1


@pytest.mark.skipif(not hasattr(AbstractCapability, "prepare_model_request"), reason="needs Pydantic AI 2.64")
async def test_compact_does_not_pass_calls_that_wait_or_an_interrupted_run(store: SessionStore) -> None:
    def answer(messages: list[ModelMessage]) -> Answer:
        return [ToolCallPart("put", {"n": 1}, "c1")] if said(messages)[-1] == "Go." and len(messages) < 7 else "Noted."

    async def put(n: int) -> str:
        return "did"

    agent = await agent_of(Provider(answer), store, put, interrupt_on={"put": True})
    await talk(agent, 2)
    assert (await agent.run("Go.", session_id="s")).status == "awaiting_human"
    with pytest.raises(DecisionsPending):
        await agent.compact("s")
    await agent.decide("s", DeferredToolResults(approvals={"c1": True}))
    assert (await agent.resume("s")).status == "completed"
    await agent.compact("s")

    lease = await store.acquire("s")
    await store.commit(
        lease, Commit([encode("run_started", {"digest": "", "attempt": 1, "prompt": "x"}, "r")], status="running")
    )
    await store.release(lease)
    with pytest.raises(UsageError, match="interrupted: resume it"):
        await agent.compact("s")
