"""A run that did not complete: its message stays, the next one follows it, and the run can be tried again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from deep_sessions import (
    AgentDeps,
    DecisionsPending,
    DeepAgent,
    NothingToResume,
    RunRequest,
    SessionNotFound,
    Sessions,
    SessionStore,
    load_session,
    open_store,
)
from pydantic_ai import CancellationToken, DeferredToolResults
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel

pytestmark = pytest.mark.anyio
Answer = str | list[ToolCallPart] | Exception


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Provider:
    """Answers requests in order; the last answer stays."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = [*answers]
        self.asked: list[list[ModelMessage]] = []

    def answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append([*messages])
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return ModelResponse([TextPart(answer)] if isinstance(answer, str) else [*answer])

    async def stream(self, messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield self.answer(messages, info).text or ""

    @property
    def read(self) -> list[str]:
        """What the user said, as the last request has it."""
        return said(self.asked[-1])


def said(messages: Any) -> list[str]:
    return [
        p.content for m in messages for p in m.parts if isinstance(p, UserPromptPart) and isinstance(p.content, str)
    ]


def down() -> ModelHTTPError:
    return ModelHTTPError(400, "m", {"error": "no"})


@asynccontextmanager
async def agent_of(
    provider: Provider, *tools: Callable[..., Any], store: SessionStore, **config: Any
) -> AsyncGenerator[DeepAgent]:
    model = FunctionModel(provider.answer, stream_function=provider.stream)
    kernel = Kernel(read_config=False)
    deps = AgentDeps(model=model, session_store=store, runtime="memory", kernel=kernel)
    agent = await DeepAgent.create(deps=deps, tools=tools, config={"interrupt_on": False, **config})
    yield agent
    await agent.close()


@pytest.fixture(params=["memory:", "sqlite"])
async def store(request: Any, tmp_path: Any) -> AsyncIterator[SessionStore]:
    opened = open_store(request.param if request.param == "memory:" else f"sqlite:///{tmp_path}/s.db")
    yield opened
    await opened.aclose()


async def test_the_next_message_follows_one_that_the_provider_refused(store: SessionStore) -> None:
    provider = Provider(down(), down(), "hello", "again")
    async with agent_of(provider, store=store) as agent:
        assert (await agent.run("I am Ada.", session_id="s")).status == "failed"
        assert said((await load_session(store, "s")).messages()) == ["I am Ada."]
        assert (await agent.run("Born 1815.", session_id="s")).status == "failed"
        assert said((await load_session(store, "s")).messages()) == ["I am Ada.", "Born 1815."]
        assert (await agent.run("Who am I?", session_id="s")).message == "hello"
        assert provider.read == ["I am Ada.", "Born 1815.", "Who am I?"]
        assert (await agent.run("And?", session_id="s")).message == "again"
        assert provider.read == ["I am Ada.", "Born 1815.", "Who am I?", "And?"]
    assert said((await load_session(store, "s")).messages()) == provider.read


async def test_a_run_that_failed_at_its_first_request_is_tried_again_with_its_message_once(store: SessionStore) -> None:
    provider = Provider(down(), down(), "hello")
    async with agent_of(provider, store=store) as agent:
        first = await agent.run("I am Ada.", session_id="s")
        second = await agent.resume("s")
        assert (second.status, second.run_id) == ("failed", first.run_id)
        third = await agent.retry("s")
    assert (third.status, third.run_id, third.message) == ("completed", first.run_id, "hello")
    assert provider.read == ["I am Ada."]
    assert said((await load_session(store, "s")).messages()) == ["I am Ada."]


async def test_a_run_that_failed_later_is_tried_again_from_its_last_step(store: SessionStore) -> None:
    ran: list[str] = []

    def put() -> str:
        ran.append("put")
        return "done"

    provider = Provider([ToolCallPart("put", {}, "c1")], down(), "end")
    async with agent_of(provider, put, store=store) as agent:
        assert (await agent.run("go", session_id="s")).status == "failed"
        assert (await agent.resume("s")).message == "end"
    assert ran == ["put"]
    assert len(provider.asked) == 3
    results = [p.content for m in provider.asked[-1] for p in m.parts if isinstance(p, ToolReturnPart)]
    assert results == ["done"]
    assert provider.read == ["go"]


async def test_a_run_that_was_aborted_is_continued_when_someone_asks(store: SessionStore) -> None:
    token = CancellationToken()

    def look() -> str:
        token.cancel()
        return "seen"

    provider = Provider([ToolCallPart("look", {}, "c1")], "end")
    async with agent_of(provider, look, store=store) as agent:
        stopped = await agent.perform(RunRequest(verb="message", session_id="s", prompt="go", token=token))
        assert stopped.status == "aborted"
        again = await agent.resume("s")
    assert (again.status, again.message, again.run_id) == ("completed", "end", stopped.run_id)


async def test_an_answer_that_ended_its_run_is_asked_for_again(store: SessionStore) -> None:
    """Such as one that the output type refuses: the run failed after a response without calls."""
    provider = Provider("first", "end")
    async with agent_of(provider, store=store) as agent:
        await agent.run("go", session_id="s")
        lease = await store.acquire("s")
        from deep_sessions import Commit
        from deep_sessions.entries import encode

        run = (await load_session(store, "s")).run
        assert run is not None
        ended = encode("run_ended", {"status": "failed", "error": {"code": "model_error", "message": "no"}}, run.id)
        await store.commit(lease, Commit([ended], status="failed"))
        await store.release(lease)
    async with agent_of(provider, store=store) as agent:
        assert (await agent.retry("s")).message == "end"
    texts = [m.text for m in (await load_session(store, "s")).messages() if isinstance(m, ModelResponse)]
    assert texts == ["end"]


async def test_nothing_to_resume_means_that_the_last_run_completed_or_nothing_was_said(store: SessionStore) -> None:
    provider = Provider("end")
    async with agent_of(provider, store=store) as agent:
        for verb in (agent.resume, agent.retry):
            with pytest.raises(SessionNotFound):
                await verb("s")
        await store.release(await store.acquire("empty"))
        await agent.run("go", session_id="done")
        for verb in (agent.resume, agent.retry):
            with pytest.raises(NothingToResume, match="no run yet"):
                await verb("empty")
            with pytest.raises(NothingToResume, match="completed"):
                await verb("done")


async def test_retry_does_not_pass_by_calls_that_wait(store: SessionStore) -> None:
    def put() -> str:
        return "done"

    provider = Provider([ToolCallPart("put", {}, "c1")], "end")
    async with agent_of(provider, put, store=store, interrupt_on={"put": True}) as agent:
        assert (await agent.run("go", session_id="s")).status == "awaiting_human"
        with pytest.raises(DecisionsPending, match="put"):
            await agent.retry("s")
        assert (await agent.resume("s")).status == "awaiting_human"
        await agent.decide("s", DeferredToolResults(approvals={"c1": True}))
        assert (await agent.retry("s")).message == "end"


async def test_a_message_whose_process_died_before_the_answer_stays_too(store: SessionStore) -> None:
    asked = asyncio.Event()

    async def hang(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    provider = Provider("hello")
    async with agent_of(provider, store=store) as agent:
        real, agent.runner.agent.model = agent.runner.agent.model, FunctionModel(hang)
        running = asyncio.ensure_future(agent.run("I am Ada.", session_id="s"))
        await asked.wait()
        running.cancel()
        await asyncio.wait([running])
        agent.runner.agent.model = real
        assert (await agent.run("Who am I?", session_id="s")).message == "hello"
    assert provider.read == ["I am Ada.", "Who am I?"]


async def test_a_message_that_was_queued_stays_where_its_run_failed(store: SessionStore) -> None:
    provider = Provider("one", down(), "three")
    async with agent_of(provider, store=store) as agent, Sessions(agent) as sessions:
        await sessions.send("s", "first")
        await sessions.wait("s")
        await sessions.queue("s", "second")
        await sessions.wait("s")
        assert (await store.info("s")).status == "failed"
        await sessions.retry("s")
        result = await sessions.wait("s")
        assert result is not None
        assert result.message == "three"
        assert said(await sessions.history("s")) == provider.read == ["first", "second"]


async def test_calls_that_a_run_left_open_are_answered_before_the_messages_that_follow(store: SessionStore) -> None:
    def explode() -> str:
        raise RuntimeError("it broke")

    provider = Provider([ToolCallPart("explode", {}, "c1")], down(), "end")
    async with agent_of(provider, explode, store=store) as agent:
        first = await agent.run("go", session_id="s")
        assert first.status == "failed"
        assert (await agent.run("next", session_id="s")).status in ("failed", "completed")
        assert (await agent.run("and", session_id="s")).message == "end"
    kinds = [part.part_kind for message in provider.asked[-1] for part in message.parts]
    assert kinds.index("tool-return") == kinds.index("tool-call") + 1
    assert provider.read == ["go", "next", "and"]
