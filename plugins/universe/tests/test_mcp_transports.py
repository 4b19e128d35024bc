"""`deep mcp serve`, called by the official client over stdio and streamable HTTP."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import mcp_types as types
import pytest
from click.testing import CliRunner
from deep_universe.mcp_commands import mcp
from mcp import Client, StdioServerParameters
from mcp.shared.exceptions import MCPError

from tests.drawn import sample

pytestmark = pytest.mark.anyio

HARBOR = '''
"""Tools that write into the current folder, and print wherever they can."""

import os
import subprocess
import sys
from pathlib import Path

from pydantic_ai import FunctionToolset

from deep_core import hookimpl

print("harbor is loaded")
os.system("echo a child of harbor")
tools = FunctionToolset(id="harbor")


@tools.tool_plain(metadata={"tags": ["read"]})
def depth(port: str) -> str:
    """Read the depth of a port."""
    print("depth prints")
    os.write(1, b"depth writes\\n")
    subprocess.run([sys.executable, "-c", "import sys; print('child', repr(sys.stdin.read()))"], check=True)
    return f"{port}: 9 m"


@tools.tool_plain(requires_approval=True)
def dredge(port: str) -> str:
    """Dredge a port."""
    with Path("dredged.txt").open("a") as file:
        file.write(port + "\\n")
    return f"{port} is dredged"


@hookimpl
def deep_toolsets(context):
    return [tools]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "harbor.py").write_text(HARBOR)
    (tmp_path / "home").mkdir()
    return tmp_path


@pytest.fixture
def environ(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("DEEP_", "XDG_"))}
    home = str(folder / "home")
    return {
        **kept,
        "HOME": home,
        "USERPROFILE": home,
        "DEEP_PLUGINS_ALLOW": "backends,cli,filesystem,sessions,todo,universe",
    }


Command = Callable[..., list[str]]


def command(*more: str) -> list[str]:
    return ["-P", "-m", "deep_cli", "mcp", "serve", "-p", "harbor.py", *more]


def text(result: Any) -> str:
    assert isinstance(result, types.CallToolResult)
    return "\n".join(block.text for block in result.content if isinstance(block, types.TextContent))


async def approves(ctx: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="accept", content={"approve": True})


@asynccontextmanager
async def http_server(folder: Path, environ: dict[str, str], *more: str) -> AsyncGenerator[str]:
    """A server on a free port; yields its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command("--http", "127.0.0.1:0", *more), cwd=folder, env=environ, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    try:
        said: list[bytes] = []
        async for line in process.stderr:
            said.append(line)
            if line.startswith(b"serving MCP at "):
                break
        assert said, "the server said nothing"
        assert b"serving" in said[-1], b"".join(said).decode()
        drain = asyncio.create_task(process.stderr.read())
        yield said[-1].decode().split()[3].rstrip(";")
        process.terminate()
        await process.wait()
        await drain
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.slow
@pytest.mark.parametrize("mode", sample(["legacy", "auto"], "auto"))
async def test_over_stdio_tools_are_listed_and_called_and_nothing_else_is_printed(
    folder: Path, environ: dict[str, str], mode: str
) -> None:
    program, *args = sys.executable, *command()
    server = StdioServerParameters(command=program, args=args, cwd=folder, env=environ)
    async with Client(server, mode=mode, elicitation_callback=approves) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"depth", "dredge", "read_file", "write_todos"} <= names
        results = await asyncio.gather(*(client.call_tool("depth", {"port": str(n)}) for n in range(3)))
        assert [text(result) for result in results] == [f"{n}: 9 m" for n in range(3)]
        assert text(await client.call_tool("dredge", {"port": "Bergen"})) == "Bergen is dredged"
        assert "9 m" not in text(await client.call_tool("read_file", {"path": "dredged.txt"}))
        await client.call_tool("write_todos", {"todos": [{"content": "Sail", "status": "pending"}]})
        assert "Sail" in text(await client.call_tool("read_todos", {}))
    assert (folder / "dredged.txt").read_text() == "Bergen\n"


@pytest.mark.slow
def test_over_stdio_every_line_of_stdout_is_a_message(folder: Path, environ: dict[str, str]) -> None:
    messages = [
        '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},'
        '"clientInfo":{"name":"test","version":"1"}}}',
        '{"jsonrpc":"2.0","method":"notifications/initialized"}',
        '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"depth","arguments":{"port":"Bergen"}}}',
    ]
    process = subprocess.Popen(
        [sys.executable, *command()],
        cwd=folder,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n".join(messages) + "\n")
    process.stdin.flush()
    lines = [process.stdout.readline(), process.stdout.readline()]
    out, err = process.communicate()  # closes stdin, which ends the server
    assert all(line.startswith('{"jsonrpc":"2.0","id":') for line in lines)
    assert "Bergen: 9 m" in lines[1]
    assert (out, process.returncode) == ("", 0)
    for printed in ("harbor is loaded", "a child of harbor", "depth prints", "depth writes", "child ''"):
        assert printed in err


@pytest.mark.slow
async def test_over_http_tools_are_listed_and_called(folder: Path, environ: dict[str, str]) -> None:
    async with http_server(folder, environ) as url:
        for mode in ("legacy", "auto"):
            async with Client(url, mode=mode) as client:
                assert {"depth", "dredge"} <= {tool.name for tool in (await client.list_tools()).tools}
                assert text(await client.call_tool("depth", {"port": "Bergen"})) == "Bergen: 9 m"
                refused = await client.call_tool("dredge", {"port": mode})
                assert refused.is_error
                assert "needs an approval" in text(refused)
            async with Client(url, mode=mode, elicitation_callback=approves) as client:
                assert text(await client.call_tool("dredge", {"port": mode})) == f"{mode} is dredged"
        assert (folder / "dredged.txt").read_text() == "legacy\nauto\n"
        await clients_with_sessions_of_their_own_have_their_own_todos(url)
        await a_page_of_another_site_reaches_nothing(url)


@pytest.mark.slow
@pytest.mark.parametrize("mode", sample(["legacy", "auto"], "auto"))
async def test_over_http_fifty_clients_at_once(folder: Path, environ: dict[str, str], mode: str) -> None:
    async def visit(url: str, number: int) -> tuple[str, bool | None]:
        async with Client(url, mode=mode, elicitation_callback=approves if number % 2 else None) as client:
            await client.list_tools()
            path = await client.call_tool("write_file", {"path": f"{number}.txt", "content": str(number)})
            return text(path), (await client.call_tool("dredge", {"port": str(number)})).is_error

    async with http_server(folder, environ) as url:
        visits = await asyncio.gather(*(visit(url, number) for number in range(50)))
    assert visits == [(f"Created {number}.txt: 1 line.", not number % 2) for number in range(50)]
    dredged = sorted(map(int, (folder / "dredged.txt").read_text().split()))
    assert dredged == [*range(1, 50, 2)]


async def clients_with_sessions_of_their_own_have_their_own_todos(url: str) -> None:
    todo = [{"content": "sail", "status": "pending", "active_form": "Sailing"}]
    async with Client(url, mode="legacy") as one, Client(url, mode="legacy") as two:
        await one.call_tool("write_todos", {"todos": todo})
        assert "sail" in text(await one.call_tool("read_todos", {}))
        assert "sail" not in text(await two.call_tool("read_todos", {}))


async def a_page_of_another_site_reaches_nothing(url: str) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    accept = {"Accept": "application/json, text/event-stream"}
    async with httpx.AsyncClient() as browser:
        rebound = await browser.post(url, json=body, headers={**accept, "Host": "evil.example"})
        foreign = await browser.post(url, json=body, headers={**accept, "Origin": "https://evil.example"})
    assert (rebound.status_code, foreign.status_code) == (421, 403)


@pytest.mark.slow
async def test_with_a_token_only_those_that_know_it_come_in(folder: Path, environ: dict[str, str]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    async with http_server(folder, {**environ, "DEEP_MCP_TOKEN": "s3cret-of-the-sea"}) as url:
        async with httpx.AsyncClient() as browser:
            for given in ({}, {"Authorization": "Bearer no"}, {"Authorization": "Bearer s3cret-of-the-seax"}):
                refused = await browser.post(url, json=body, headers=given)
                assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        with pytest.raises(BaseException) as refusal:  # noqa: PT011 - whatever the client makes of it
            async with Client(url, mode="legacy"):
                pass
        assert not isinstance(refusal.value, AssertionError)


def test_an_argument_that_cannot_be_served_is_one_line(
    folder: Path, environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in os.environ:
        if key.startswith(("DEEP_", "XDG_")):
            monkeypatch.delenv(key)
    for key in ("HOME", "USERPROFILE", "DEEP_PLUGINS_ALLOW"):
        monkeypatch.setenv(key, environ[key])
    monkeypatch.chdir(folder)

    def said(*more: str) -> str:
        done = CliRunner().invoke(mcp, ["serve", "-p", "harbor.py", *more])
        assert done.exit_code == 2, done.output
        assert not done.stdout.replace("harbor is loaded\n", ""), done.output
        return done.stderr

    assert "not HOST:PORT; type --http 127.0.0.1:8000" in said("--http", "8000x")
    assert "Set DEEP_MCP_TOKEN to a secret" in said("--http", "0.0.0.0:0")
    assert "--tools: line 1, column 7" in said("--tools", "read &")
    assert "--tools: no tool to serve: none matches prefix:nothing" in said("--http", ":0", "--tools", "^nothing")


@pytest.mark.slow
async def test_only_the_selected_tools_are_served(folder: Path, environ: dict[str, str]) -> None:
    program, *args = sys.executable, *command("--tools", "^dep")
    server = StdioServerParameters(command=program, args=args, cwd=folder, env=environ)
    async with Client(server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["depth"]
        with pytest.raises(MCPError, match="no tool 'dredge'"):
            await client.call_tool("dredge", {"port": "Bergen"})
