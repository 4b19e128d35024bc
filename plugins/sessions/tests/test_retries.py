"""`model.retry`, against a real HTTP server."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pytest
from deep_sessions import AgentDeps, DeepAgent
from deep_sessions.requests import breaker
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from plugins.sessions.tests.scripted import kernel

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def _no_breakers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(breaker, "_BREAKERS", {})  # a port of an earlier test may come again


CHUNK = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m"}


def body(stream: bool) -> bytes:
    if stream:
        chunks = [
            {
                **CHUNK,
                "choices": [{"index": 0, "delta": {"role": "assistant", "content": "hel"}, "finish_reason": None}],
            },
            {**CHUNK, "choices": [{"index": 0, "delta": {"content": "lo"}, "finish_reason": "stop"}]},
        ]
        return b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
    message = {"role": "assistant", "content": "hello"}
    return json.dumps(
        {
            **CHUNK,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        }
    ).encode()


@asynccontextmanager
async def provider(*statuses: int, headers: str = "") -> AsyncGenerator[tuple[str, list[int]]]:
    """A server that answers with these statuses, the last one again and again; 0 closes the connection,
    -1 streams a word, then only comments."""
    seen: list[int] = []

    async def serve(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            request = b""
            while b"\r\n\r\n" not in request:
                request += await stream.receive()
            head, _, rest = request.partition(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            while len(rest) < length:
                rest += await stream.receive()
            status = statuses[min(len(seen), len(statuses) - 1)]
            seen.append(status)
            if not status:
                return
            if status < 0:
                head = "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
                first = {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "One"}}]}
                await stream.send(f"{head}data: {json.dumps(first)}\n\n".encode())
                while True:
                    await anyio.sleep(0.02)
                    await stream.send(b": ping\n\n")
            streams = json.loads(rest).get("stream", False)
            data = body(streams) if status == 200 else b"{}"
            kind = "text/event-stream" if streams and status == 200 else "application/json"
            answer = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(data)}\r\n{headers}"
            await stream.send(f"{answer}connection: close\r\n\r\n".encode() + data)

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        yield f"http://127.0.0.1:{port}/v1", seen
        tasks.cancel_scope.cancel()
    await listener.aclose()


async def agent(url: str, **retry: Any) -> DeepAgent:
    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))
    config = {"model": {"retry": {"backoff_ms": 1, **retry}}}
    return await DeepAgent.create(config=config, deps=AgentDeps(model=model, kernel=kernel()))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("statuses", [(429, 429, 200), (500, 503, 200), (0, 408, 200)])
async def test_model_retry_sends_a_request_again(statuses: tuple[int, ...], stream: bool) -> None:
    async with provider(*statuses) as (url, seen):
        made = await agent(url)
        result: Any
        if stream:
            result = [item async for item in made.run_stream("go")][-1]
        else:
            result = await made.run("go")
        assert (result.status, result.message) == ("completed", "hello"), result.error
        assert seen == [*statuses]


@pytest.mark.parametrize("status", [500, 503])
async def test_a_provider_that_asks_not_to_send_again_is_asked_once(status: int) -> None:
    async with provider(status, 200, headers="x-should-retry: false\r\n") as (url, seen):
        result = await (await agent(url)).run("go")
        assert (result.status, seen) == ("failed", [status])


@pytest.mark.parametrize(
    ("statuses", "retry", "calls", "code"),
    [
        ((429,), {"max_attempts": 1}, 1, "rate_limited"),
        ((429,), {"max_attempts": 2}, 2, "rate_limited"),
        ((400,), {}, 1, "rejected"),
    ],
)
async def test_model_retry_ends_after_its_attempts_and_at_other_errors(
    statuses: tuple[int, ...], retry: dict[str, Any], calls: int, code: str
) -> None:
    async with provider(*statuses) as (url, seen):
        result = await (await agent(url, **retry)).run("go")
        assert (result.code, result.retryable) == (code, code == "rate_limited")
        assert len(seen) == calls


async def test_model_retry_max_wait_ms_and_backoff_ms_bound_the_waits() -> None:
    async with provider(503, 503, 503, 200) as (url, seen):
        result = await (await agent(url, max_wait_ms=0)).run("go")
        assert (result.status, result.code, len(seen)) == ("failed", "unavailable", 1)
        result = await (await agent(url, backoff_ms=60_000, max_wait_ms=10_000)).run("go")
        assert (result.status, len(seen)) == ("failed", 2)  # the next try would be later than it may wait


async def test_model_stall_ms_ends_a_stream_that_says_nothing() -> None:
    async with provider(-1) as (url, _):
        model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=url, api_key="none"))
        config = {"model": {"stall_ms": 100, "retry": {"backoff_ms": 1, "max_attempts": 1}}}
        made = await DeepAgent.create(config=config, deps=AgentDeps(model=model, kernel=kernel()))
        result: Any = [item async for item in made.run_stream("go")][-1]
    assert (result.status, result.code, result.finish_reason) == ("failed", "stalled", "transient")
