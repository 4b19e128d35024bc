"""docs/how-plugins-work.md on an HTTP client of a plugin: who opens it, who closes it, and in which loop it works."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest
from pydantic_ai import FunctionToolset
from pydantic_ai.messages import ModelRequest, ToolReturnPart

from deep_core import Kernel, create_default_deps, hookimpl
from tests.stubs import Call, Script, function_model


class Handler(BaseHTTPRequestHandler):
    """Keeps connections, as services do."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"clear")

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


class Sky:
    """A plugin with a client, as the page writes it."""

    def __init__(self, url: str) -> None:
        self.url, self.clients = url, list[httpx2.AsyncClient]()

    @hookimpl
    def deep_toolsets(self, context: Any) -> list[FunctionToolset[Any]]:
        client = httpx2.AsyncClient(timeout=10)
        context.on_close(client.aclose)
        self.clients.append(client)
        toolset = FunctionToolset[Any](id="sky")

        @toolset.tool_plain(metadata={"tags": ["read"]})
        async def kept() -> str:
            """Ask with the agent's client."""
            return (await client.get(self.url)).text

        @toolset.tool_plain(metadata={"tags": ["read"]})
        async def own() -> str:
            """Ask with a client of the call."""
            async with httpx2.AsyncClient() as client:
                return (await client.get(self.url)).text

        return [toolset]


async def ask(kernel: Kernel, agent: Any, tool: str) -> str:
    with agent.override(model=function_model(Script(Call(tool, {}), "Done."))):
        done = await agent.run("Go.", deps=create_default_deps(kernel=kernel))
    parts = [part for each in done.all_messages() if isinstance(each, ModelRequest) for part in each.parts]
    return next(str(part.content) for part in parts if isinstance(part, ToolReturnPart))


def test_each_agent_opens_one_and_the_kernel_closes_them(url: str) -> None:
    sky = Sky(url)

    async def main() -> None:
        async with Kernel(plugins=[sky], discover=False) as kernel:
            agents = [kernel.create_agent("test") for _ in range(2)]
            assert [await ask(kernel, agent, "kept") for agent in agents * 2] == ["clear"] * 4
            assert [client.is_closed for client in sky.clients] == [False, False]

    asyncio.run(main())
    assert [client.is_closed for client in sky.clients] == [True, True]


def test_in_a_second_loop_only_a_client_of_the_call_works(url: str) -> None:
    sky = Sky(url)
    kernel = Kernel(plugins=[sky], discover=False)
    agent = kernel.create_agent("test")
    assert [asyncio.run(ask(kernel, agent, "own")) for _ in range(2)] == ["clear", "clear"]
    with asyncio.Runner() as first:  # it stays, so that the client's connection is closed where it was opened
        assert first.run(ask(kernel, agent, "kept")) == "clear"
        failed = asyncio.run(ask(kernel, agent, "kept"))
        assert "event loop" in failed
        assert "plugin sky" in failed
        first.run(kernel.aclose())
    assert sky.clients[0].is_closed
