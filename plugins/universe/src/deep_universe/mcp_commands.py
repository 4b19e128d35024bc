"""`deep mcp serve`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import click
from deep_cli import Failure, backend_option, config_option, plugin_option, say

from deep_core import MissingExtra, ToolExpression
from deep_core.plugin_api import UnmatchedExpression

from .assembled import assembled
from .mcp_transports import LOOPBACK, claim_stdio, open_socket, serve_http, serve_stdio

if TYPE_CHECKING:
    import socket

    from pydantic_ai import Agent

    from .mcp_server import ApprovalMode
    from .mcp_transports import Wire

__all__ = ["mcp"]

TOKEN = "DEEP_MCP_TOKEN"  # noqa: S105 - the name of the variable
USAGE = 2


@click.group("mcp")
def mcp() -> None:
    """Serve the agent's tools to MCP clients."""


@mcp.command("serve")
@click.option(
    "--http",
    "address",
    metavar="HOST:PORT",
    help="Serve streamable HTTP at http://HOST:PORT/mcp instead of stdio. HOST is 127.0.0.1 if left out.",
)
@click.option("--tools", "expression", metavar="EXPR", help="The tools to serve, as 'read & ~network'. Default: all.")
@click.option(
    "--approve",
    type=click.Choice(["ask", "allow", "deny"]),
    default="ask",
    help="How to decide calls that need approval. Default: ask the client's user, or deny if the client cannot ask.",
)
@click.option("-m", "--model", metavar="MODEL", help="provider:name, for tools that ask a model, such as task.")
@backend_option
@plugin_option
@config_option
def serve(
    address: str | None,
    expression: str | None,
    approve: Literal["ask", "allow", "deny"],
    model: str | None,
    backend: str | None,
    plugin_files: tuple[Path, ...],
    config: Path | None,
) -> None:
    """Serve the tools of the agent to MCP clients, under the agent's policy.

    The agent is the one that `deep run` has in this folder; it needs no model and no key. Serves one client over
    stdin and stdout until it leaves, or with --http any number until SIGTERM or Ctrl-C. Over HTTP, every program of
    this machine may call the tools; set DEEP_MCP_TOKEN to let in only those that know it.
    """
    if find_spec("mcp") is None:
        raise Failure(f"deep mcp serve {MissingExtra('universe[mcp]')}")
    only = None if expression is None else _expression(expression)
    token = os.environ.get(TOKEN, "")
    listener = None if address is None else _listen(address, token)
    with ExitStack() as stack:
        wire = None if listener is not None else stack.enter_context(claim_stdio())
        if listener is not None:
            stack.callback(listener.close)
        try:
            # The filter of the agent, so that its subagents have no more than the client.
            _, agent = stack.enter_context(assembled(plugin_files, config, model, backend, only))
            asyncio.run(_serve(agent, approve, wire, listener, token))
        except UnmatchedExpression as error:
            raise Failure(f"--tools: no tool to serve: none matches {error.expression}", USAGE) from error


async def _serve(
    agent: Agent[Any, Any],
    approve: ApprovalMode,
    wire: Wire | None,
    listener: socket.socket | None,
    token: str,
) -> None:
    from .agents import agent_tools
    from .mcp_server import make_mcp_server

    async with agent_tools(agent) as tools:
        server = make_mcp_server(tools, approve=approve)
        if wire is not None:
            await serve_stdio(server, wire)
        elif listener is not None:
            host, port, *_ = listener.getsockname()
            shown = f"[{host}]" if ":" in host else host
            say(f"serving MCP at http://{shown}:{port}/mcp; Ctrl-C ends it", err=True)
            await serve_http(server, listener, token=token)


def _expression(text: str) -> ToolExpression:
    try:
        return ToolExpression.parse(text)
    except ValueError as error:
        raise Failure(f"--tools: {error}", USAGE) from error


def _listen(address: str, token: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]") or LOOPBACK[0]
    if not port.isdecimal() or int(port) > 65_535:
        _refuse(f"--http {address}: not HOST:PORT; type --http {LOOPBACK[0]}:8000")
    if host not in LOOPBACK and not token:
        _refuse(
            f"--http {address}: {host} may be reached by other machines, and the tools would be theirs. Set {TOKEN} "
            f"to a secret that each client sends as a bearer token, or type --http {LOOPBACK[0]}:{port}"
        )
    try:
        return open_socket(host, int(port))
    except OSError as error:
        _refuse(f"--http {address}: {error.strerror or error}; name another port")


def _refuse(message: str) -> NoReturn:
    raise Failure(message, USAGE)
