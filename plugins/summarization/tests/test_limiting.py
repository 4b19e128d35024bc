"""`[agent.context]`: how many messages and tokens a request sends."""

from __future__ import annotations

from typing import Any

import deep_sessions
import deep_summarization
import pytest
from deep_sessions import AgentDeps, DeepAgent, MemoryStore
from deep_sessions.fold import fold
from deep_summarization.limiting import newest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from deep_core import Kernel
from plugins.sessions.tests.scripted import Scripted, call, put

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def create(said: Scripted, **context: Any) -> tuple[DeepAgent, MemoryStore]:
    store = MemoryStore()
    kernel = Kernel(plugins=[deep_sessions, deep_summarization], discover=False)
    deps = AgentDeps(model=said.model, kernel=kernel, session_store=store)
    return await DeepAgent.create(config={"context": context}, deps=deps, tools=[put]), store


async def test_context_max_history_messages_bounds_a_request_and_not_the_store() -> None:
    said = Scripted("end")
    agent, store = await create(said, max_history_messages=4)
    for _ in range(6):
        assert (await agent.run("go", session_id="s")).status == "completed"
    sent = [len(messages) for messages, _ in said.requests]
    assert max(sent) <= 4
    assert sent[0] == 1
    assert all(isinstance(messages[0], ModelRequest) for messages, _ in said.requests)
    assert len(fold(await store.load("s")).messages()) == 12


async def test_context_max_history_messages_1_keeps_a_call_with_its_result() -> None:
    said = Scripted([call("put")], "end")
    agent, _ = await create(said, max_history_messages=1)
    result = await agent.run("go")
    assert result.status == "completed", result.error
    kinds = [part.part_kind for message in said.requests[-1][0] for part in message.parts]
    assert kinds == ["user-prompt", "tool-call", "tool-return"]


def test_newest_keeps_a_system_prompt_and_moves_in_steps() -> None:
    messages: list[ModelMessage] = [ModelRequest([SystemPromptPart("Standing."), UserPromptPart("0")])]
    starts: list[object] = []
    for n in range(1, 40):
        messages += [ModelResponse([TextPart(str(n))]), ModelRequest.user_text_prompt(str(n))]
        shown = newest(messages, 16)
        assert len(shown) <= 16
        assert any(isinstance(part, SystemPromptPart) for part in shown[0].parts)
        starts.append(shown[1])
    assert len({id(start) for start in starts}) < 22


def test_newest_never_splits_calls_and_returns() -> None:
    messages: list[ModelMessage] = []
    for n in range(10):
        messages += [
            ModelRequest.user_text_prompt("go"),
            ModelResponse([call("put", f"a{n}"), call("put", f"b{n}")]),
            ModelRequest([ToolReturnPart("put", "did", f"a{n}"), ToolReturnPart("put", "did", f"b{n}")]),
        ]
    for most in range(1, 30):
        shown = newest(messages, most)
        called = {part.tool_call_id for m in shown if isinstance(m, ModelResponse) for part in m.tool_calls}
        returned = {part.tool_call_id for m in shown for part in m.parts if isinstance(part, ToolReturnPart)}
        assert called == returned
        assert len(shown) <= max(most, 3)


async def test_context_enable_compaction_off_makes_a_long_history_an_error() -> None:
    said = Scripted("x" * 3000)
    agent, _ = await create(said, enable_compaction=False, max_input_tokens=1024)
    codes: list[str] = []
    for _ in range(3):
        result = await agent.run("go " * 300, session_id="s")
        codes.append(result.status if result.error is None else result.error.code)
    assert codes == ["completed", "limit_exceeded", "limit_exceeded"]
    assert len(said.requests) == 1


async def test_context_enable_compaction_on_summarizes_at_max_input_tokens() -> None:
    said = Scripted("A summary of what was said.")
    agent, store = await create(said, max_input_tokens=1024)
    for _ in range(6):
        assert (await agent.run("go " * 300, session_id="s")).status == "completed"
    assert any(entry.kind == "base" for entry in await store.entries("s"))


async def test_model_context_window_is_what_compaction_begins_below() -> None:
    said, store = Scripted("A summary of what was said."), MemoryStore()
    kernel = Kernel(plugins=[deep_sessions, deep_summarization], discover=False)
    deps = AgentDeps(model=said.model, kernel=kernel, session_store=store)
    agent = await DeepAgent.create(config={"model": {"context_window": 1024}}, deps=deps, tools=[put])
    for _ in range(6):
        assert (await agent.run("go " * 300, session_id="s")).status == "completed"
    assert any(entry.kind == "base" for entry in await store.entries("s"))


async def test_context_max_input_tokens_above_the_window_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    model = Scripted("end").model
    model = FunctionModel(model.function, profile={"context_window": 1000})
    kernel = Kernel(plugins=[deep_sessions, deep_summarization], discover=False)
    config = {"context": {"max_input_tokens": 9_000_000}}
    agent = await DeepAgent.create(config=config, deps=AgentDeps(model=model, kernel=kernel))
    for _ in range(2):
        await agent.run("go", session_id="s")
    assert sum("max_input_tokens" in record.getMessage() for record in caplog.records) == 1
