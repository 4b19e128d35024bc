"""`deep mcp list`, `test`, `login`, `add`, `remove`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import logging
import os
import webbrowser
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from deep_cli import Failure, config_option, one_line, redact_args, say, say_json

from deep_core import Kernel
from deep_core.plugin_api import suggest, visible

from .budget import searched, tokens_of
from .connection import Connection, ServerFailed
from .files import add_server, remove_server
from .hub import Hub
from .kernels import hub_of
from .options import McpOptions
from .places import find_files, user_mcp_file
from .servers import FoundServer, find_servers, read_server

if TYPE_CHECKING:
    from .listing import ListedTool
    from .servers import ServerConfig

__all__ = ["mcp"]

FAILED, USAGE = 1, 2
output_option = click.option(
    "--output", type=click.Choice(["text", "json"]), default="text", help="Format of stdout. Default: text."
)
project_option = click.option(
    "--project", is_flag=True, help="The file .mcp.json of the current folder, not your own mcp.json."
)


@click.group("mcp")
def mcp() -> None:
    """List, test, add, remove and log in to the MCP servers of the agent."""


@mcp.command("list")
@output_option
@config_option
def list_servers(output: str, config: Path | None) -> None:
    """List every configured server, where it stands, and why one is not used. Starts none."""
    with _hub(config) as hub:
        listings = [(name, c.listing) for name, c in hub.connections.items() if c.listing is not None]
        later = searched(listings, hub.options.tool_tokens, hub.options.defer_above)
        rows = [_facts(hub, server, later) for server in hub.found]
    if output == "json":
        say_json({"schema": 1, "servers": rows})
        return
    for row in rows:
        tools = "" if row["tools"] is None else f", {_tools(row['tools'])}{_cost(row)}"
        say(f"{one_line(row['name'])}  {row['status']}{tools}  {one_line(row['target'] or '', None)}")
        say(f"  from {one_line(row['source'], None)}")
        if row["reason"]:
            say(f"  {one_line(row['reason'], None)}")
        if row["changed"]:
            say(f"  changed since you accepted them: {one_line(', '.join(row['changed']), None)}")
    if not rows:
        say("no MCP server is configured; deep mcp add NAME COMMAND", err=True)


def _target(config: ServerConfig) -> str:
    """Return the program or the address, without secrets among its arguments."""
    shown = [config.command, *config.args] if config.transport == "stdio" else [config.target]
    return visible(" ".join(redact_args(shown)))


def _cost(row: dict[str, Any]) -> str:
    if not row["tools"]:
        return ""
    return f" of {row['tokens']:,} tokens, {'found by search' if row['searched'] else 'in each request'}"


def _facts(hub: Hub, server: FoundServer, later: Collection[str]) -> dict[str, Any]:
    connection = hub.connections.get(server.name) if server.status == "ready" else None
    listing = connection.listing if connection is not None else None
    return {
        "name": server.name,
        "status": server.status,
        "source": server.source,
        "target": _target(server.config) if server.config is not None else None,
        "reason": server.reason,
        "tools": None if listing is None else len(listing.tools),
        "tokens": None if listing is None else tokens_of(listing.tools),
        "searched": None if listing is None else server.name in later,
        "changed": [] if connection is None else [*connection.changed],
    }


@mcp.command("test")
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--accept", is_flag=True, help="Accept what the tools say now: those that changed no longer ask for it.")
@output_option
@config_option
def test_servers(names: tuple[str, ...], accept: bool, output: str, config: Path | None) -> None:
    """Start servers, all or those named, and show their tools. Exit code 1 if one of them fails.

    The agent remembers the tools, so that its next start waits for none of these servers.
    """
    with _hub(config) as hub:
        wanted = [_named(hub, name) for name in dict.fromkeys(names)] or [
            server for server in hub.found if server.status not in ("disabled", "shadowed")
        ]
        rows = asyncio.run(_test(hub, wanted))
        for server in wanted if accept else ():
            connection = hub.connections.get(server.name)
            if connection is not None and connection.listing is not None and not connection.problem:
                hub.store.accept(connection.config, connection.listing)
    if output == "json":
        say_json({"schema": 1, "servers": rows})
    else:
        for row in rows:
            _say_test(row, accepted=accept)
    if any(row["problem"] for row in rows):
        raise click.exceptions.Exit(FAILED)


async def _test(hub: Hub, servers: Sequence[FoundServer]) -> list[dict[str, Any]]:
    return list(await asyncio.gather(*(_tested(hub, server) for server in servers)))


async def _tested(hub: Hub, server: FoundServer) -> dict[str, Any]:
    row: dict[str, Any] = {"name": server.name, "problem": "", "tools": [], "left_out": [], "changed": [], "log": None}
    row |= {"prompts": [], "resources": False}
    connection = hub.connections.get(server.name)
    if connection is None or server.status != "ready":
        return {**row, "problem": server.reason}
    log = str(hub.store.log_path(server.name)) if connection.config.transport == "stdio" else None
    try:
        listing = await hub.worker.run(connection.list_tools())
    except ServerFailed as error:
        return {**row, "problem": str(error), "log": log}
    tools = [_tool(connection, tool) for tool in listing.tools]
    row |= {"prompts": [prompt.name for prompt in listing.prompts], "resources": listing.resources}
    return {**row, "tools": tools, "left_out": [*listing.left_out], "changed": [*connection.changed], "log": log}


def _tool(connection: Connection, tool: ListedTool) -> dict[str, Any]:
    changed = tool.name in connection.changed
    return {"name": tool.name, "description": tool.description, "annotations": tool.hints, "changed": changed}


def _tools(count: int) -> str:
    return "1 tool" if count == 1 else f"{count} tools"


def _say_test(row: dict[str, Any], *, accepted: bool) -> None:
    if row["problem"]:
        say(f"{row['name']}: {one_line(row['problem'], None)}")
    else:
        say(f"{row['name']}: {_tools(len(row['tools']))}")
    for tool in row["tools"]:
        hints = ", ".join(f"{key}={str(value).lower()}" for key, value in tool["annotations"].items())
        mark = " CHANGED" if tool["changed"] else ""
        say(f"  {tool['name']}{mark}  {one_line(tool['description'], 120)}" + (f"  [{hints}]" if hints else ""))
    if row["prompts"]:
        say(f"  prompts: {one_line(', '.join(row['prompts']), None)}")
    if row["resources"]:
        say("  it has resources")
    for reason in row["left_out"]:
        say(f"  left out: {one_line(reason, None)}")
    if row["changed"]:
        end = "accepted" if accepted else f"if you agree: deep mcp test {row['name']} --accept"
        say(f"  {len(row['changed'])} changed since you accepted them; {end}")
    if row["log"]:
        say(f"  stderr: {one_line(row['log'], None)}")


@mcp.command("login")
@click.argument("name")
@click.option("--no-browser", is_flag=True, help="Only print the address; open no browser.")
@click.option("--timeout", type=click.FloatRange(min=1), default=300.0, help="Seconds to wait for you. Default: 300.")
@config_option
def login(name: str, no_browser: bool, timeout: float, config: Path | None) -> None:
    """Log in to a server at an address that asks for it, by OAuth in your browser.

    The tokens stay in deep's data folder, readable by you alone. The agent uses and refreshes them.
    """
    with _hub(config) as hub:
        server = _named(hub, name)
        if server.status != "ready" or server.config is None:
            raise Failure(server.reason, USAGE)
        if not server.config.takes_login:
            why = "is a program" if server.config.transport == "stdio" else "has a header Authorization in its entry"
            raise Failure(f"MCP server {name} {why}, so there is no login; deep mcp test {name} shows its state", USAGE)
        try:
            said = asyncio.run(_login(hub, server.config, browser=not no_browser, seconds=timeout))
        except TimeoutError:
            raise Failure(f"MCP server {name}: no login within {timeout:g} s; deep mcp login {name}", FAILED) from None
        except Exception as error:
            why = one_line(str(error) or type(error).__name__, 600)
            raise Failure(f"MCP server {name}: the login failed: {why}", FAILED) from error
    say(said)


async def _login(hub: Hub, config: ServerConfig, *, browser: bool, seconds: float) -> str:
    config = config.expanded(os.environ)

    async def show(address: str) -> None:
        say(f"Open this address to log in to {config.name}:\n{one_line(address, None)}")
        if browser:
            await asyncio.to_thread(webbrowser.open, address)

    sdk = logging.getLogger("mcp.client.auth.oauth2")
    sdk.addFilter(_drop)  # it logs the traceback of a refused login, which the command says in one line
    try:
        return await _logged_in(hub, config, show, seconds)
    finally:
        sdk.removeFilter(_drop)


def _drop(record: logging.LogRecord) -> bool:
    return False


async def _logged_in(hub: Hub, config: ServerConfig, show: Callable[[str], Awaitable[None]], seconds: float) -> str:
    from .client import Client
    from .oauth import Redirect, login_provider, token_path

    async with asyncio.timeout(seconds), Redirect() as redirect:
        provider = login_provider(token_path(hub.store.data, config.url), config.url, redirect, show)
        client = Client(config, hub.store.log_path(config.name), seconds, lambda: None, provider)
        await client.open()
        try:
            count = len((await client.tools())[0])
        finally:
            await client.close()
    if provider.context.current_tokens is None:
        return f"{config.name} needs no login: {_tools(count)}"
    return f"Logged in to {config.name}: {_tools(count)}"


@mcp.command("add", context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--url", metavar="URL", help="The address of a server over HTTP, instead of a command.")
@click.option("--sse", is_flag=True, help="The address is of the older transport SSE.")
@click.option("--header", "headers", metavar="NAME=VALUE", multiple=True, help="A header of each request; repeatable.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the command; repeatable.")
@project_option
def add(
    name: str,
    command: tuple[str, ...],
    url: str | None,
    sse: bool,
    headers: tuple[str, ...],
    env: tuple[str, ...],
    project: bool,
) -> None:
    """Add a server: the COMMAND that starts it, after --, or the --url where it is.

    Write secrets as '${VARIABLE}': the file then has the name, and the environment the secret.
    """
    if (url is None) == (not command):
        raise Failure(f"deep mcp add {name}: type a command after --, or --url URL", USAGE)
    entry: dict[str, Any] = {"type": "stdio", "command": command[0], "args": [*command[1:]]} if command else {}
    if url is not None:
        entry = {"type": "sse" if sse else "http", "url": url}
    for key, pairs in (("headers", headers), ("env", env)):
        if pairs:
            if (key == "env") == (url is not None):
                raise Failure(
                    f"--{key.removesuffix('s')}: not for a server {'with' if url else 'without'} --url", USAGE
                )
            entry[key] = dict(_pair(pair, key) for pair in pairs)
    path = _path(project)
    found = read_server(name, entry, str(path), strict=False)
    if found.status == "invalid" and "environment variable" not in found.reason:  # it may be set later
        raise Failure(found.reason, USAGE)
    try:
        trusted = add_server(path, name, entry)
    except ValueError as error:
        raise Failure(str(error), USAGE) from error
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", FAILED) from error
    _say_written(path, f"Added {name} to", trusted=trusted)
    say(f"See its tools: deep mcp test {name}")


@mcp.command("remove")
@click.argument("name")
@project_option
def remove(name: str, project: bool) -> None:
    """Remove a server from your mcp.json, or with --project from .mcp.json."""
    path = _path(project)
    try:
        trusted = remove_server(path, name)
    except ValueError as error:
        raise Failure(f"{error}; deep mcp list shows where a server stands", USAGE) from error
    except OSError as error:
        raise Failure(f"{path}: {error.strerror or error}", FAILED) from error
    _say_written(path, f"Removed {name} from", trusted=trusted)


def _path(project: bool) -> Path:
    return Path.cwd() / ".mcp.json" if project else user_mcp_file()


def _pair(text: str, key: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise Failure(f"--{key.removesuffix('s')} {text}: write NAME=VALUE", USAGE)
    return name, value


def _say_written(path: Path, what: str, *, trusted: bool) -> None:
    say(f"{what} {one_line(str(path), None)}")
    if not trusted and path != user_mcp_file():
        say(f"It was not trusted before; read it, and if you agree: deep config trust {path}")


def _named(hub: Hub, name: str) -> FoundServer:
    found = [server for server in hub.found if server.name == name]
    if not found:
        names = [server.name for server in hub.found]
        raise Failure(f"no MCP server {name!r}.{suggest(name, names)} deep mcp list shows them", USAGE)
    return next((server for server in found if server.status == "ready"), found[0])


@contextmanager
def _hub(config: Path | None) -> Generator[Hub]:
    with Kernel(config=config) as kernel:
        context = kernel.context("mcp")
        options = context.options(McpOptions)
        contributed = kernel.caller.collect(
            "deep_mcp_servers",
            lambda plugin: {"context": kernel.context(plugin)},
            among=kernel.active,
            drop=kernel.leave_out,
        )
        found = find_servers(
            options.servers, find_files() if options.files else (), [item.value for item in contributed]
        )
        hub = hub_of(context, found, options, quiet=True)
        hub.remember()
        yield hub
