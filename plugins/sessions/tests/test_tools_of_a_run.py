"""What an application's tools and callers can do to a run: block it, return what cannot be written, leave it."""

from __future__ import annotations

import asyncio
import gc
import logging
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from deep_sessions import AgentDeps, DeepAgent, Delta
from pydantic_ai import Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturn, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Node:
    """No type that JSON has."""


def circle() -> Any:
    node: dict[str, Any] = {"name": "root"}
    node["parent"] = [node]
    return node


async def agent_of(*tools: Callable[..., Any] | Tool[Any], calls: tuple[str, ...] = ()) -> DeepAgent:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(isinstance(message, ModelResponse) for message in messages):
            return ModelResponse([TextPart("end")])
        return ModelResponse([ToolCallPart(name, {}, name) for name in calls])

    deps = AgentDeps(
        model=FunctionModel(answer), session_store="memory:", runtime="memory", kernel=Kernel(read_config=False)
    )
    return await DeepAgent.create(deps=deps, tools=tools, config={"interrupt_on": False})


@pytest.mark.parametrize("made", [circle, lambda: {"a": Node()}, lambda: ToolReturn("x", metadata=circle())])
async def test_a_result_without_json_is_a_failed_call_and_the_session_goes_on(made: Callable[[], Any]) -> None:
    async def tree() -> Any:
        return made()

    agent = await agent_of(tree, calls=("tree",))
    result = await agent.run("go", session_id="s")
    assert (result.status, result.message) == ("completed", "end")
    stored = await agent.store.load("s")
    assert b"cannot be written as JSON" in b"".join(entry.data for entry in stored.entries)
    assert (await agent.run("again", session_id="s")).message == "end"
    await agent.close()


async def test_a_result_that_looks_odd_and_has_json_is_kept() -> None:
    async def odd() -> Any:
        shared = ["x"]
        return {"twice": [shared, shared], "bytes": b"\xff", "set": {1}, "none": None}

    agent = await agent_of(odd, calls=("odd",))
    seen: list[Any] = []
    result = await agent.run("go", session_id="s")
    assert result.status == "completed"
    from deep_sessions import load_session

    for message in (await load_session(agent.store, "s")).messages():
        seen += [part.content for part in message.parts if isinstance(part, ToolReturnPart)]
    assert seen[0]["twice"] == [["x"], ["x"]]
    await agent.close()


async def test_a_blocking_coroutine_with_a_timeout_is_said(caplog: pytest.LogCaptureFixture) -> None:
    async def blocks() -> str:
        time.sleep(0.8)
        return "late"

    async def quick() -> str:
        return "in time"

    tools = [Tool(blocks, timeout=0.1), Tool(quick, timeout=60)]
    agent = await agent_of(*tools, calls=("blocks", "quick"))
    with caplog.at_level(logging.WARNING, logger="deep.sessions"):
        assert (await agent.run("go", session_id="s")).status == "completed"
    (said,) = [record.getMessage() for record in caplog.records if record.name == "deep.sessions"]
    assert said.startswith("the tool blocks has a timeout of 0.1 s and took ")
    assert "it blocked the event loop" in said
    await agent.close()


async def test_a_stream_that_its_reader_leaves_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    began, logged = asyncio.Event(), list[dict[str, Any]]()

    async def write(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str]:
        yield "The first "
        began.set()
        await asyncio.Event().wait()

    deps = AgentDeps(
        model=FunctionModel(stream_function=write),
        session_store="memory:",
        runtime="memory",
        kernel=Kernel(read_config=False),
    )
    agent = await DeepAgent.create(deps=deps)
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: logged.append(context))

    async def read() -> None:
        async for item in agent.run_stream("go", session_id="s"):
            assert isinstance(item, Delta)

    reader = asyncio.ensure_future(read())
    await began.wait()
    reader.cancel()
    await asyncio.wait([reader])
    assert reader.cancelled()
    gc.collect()
    await asyncio.sleep(0)
    assert logged == []
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert (await agent.store.info("s")).status == "running"  # as after a crash: it can be resumed
    await agent.close()
