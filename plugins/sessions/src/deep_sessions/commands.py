"""`deep sessions`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

import click
from deep_cli import Failure

from deep_core import ConfigError, Kernel, MissingExtra
from deep_core.plugin_api import visible

from .errors import AgentError
from .fold import fold
from .store import SessionInfo, SessionStore
from .stores.open import open_store

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage

__all__ = ["sessions"]

T = TypeVar("T")
FAILED, USAGE, REFUSED = 1, 2, 3
"""Exit codes, as those of `deep run`."""
AGO = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
store_option = click.option(
    "--store",
    metavar="URL",
    help="Where the sessions are: sqlite:///path or postgresql://…. Default: sessions.db in deep's data folder.",
)
owner_option = click.option("--owner", metavar="NAME", help="Only the sessions of this owner.")
json_option = click.option("--json", "as_json", is_flag=True, help='Print JSON ("schema": 1, documented).')


def default_store() -> str:
    """Return the URL of the store that is used without `--store`."""
    from platformdirs import user_data_path

    return f"sqlite:///{user_data_path('deep') / 'sessions.db'}"


def _with_store(store: str | None, owner: str | None, work: Callable[[SessionStore], Coroutine[Any, Any, T]]) -> T:
    async def run() -> T:
        opened = open_store(store or default_store(), owner=owner)
        try:
            return await work(opened)
        finally:
            await opened.aclose()

    try:
        return asyncio.run(run())
    except AgentError as error:
        raise Failure(error.message) from error
    except (ConfigError, MissingExtra) as error:
        raise Failure(str(error), USAGE) from error


@click.group()
def sessions() -> None:
    """Show, continue, fork, rewind, export and delete stored sessions."""


@sessions.command("list")
@click.option("--status", type=click.Choice(["idle", "running", "awaiting", "failed", "aborted"]), help="Only these.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@owner_option
@store_option
@json_option
def list_sessions(status: Any, limit: int, owner: str | None, store: str | None, as_json: bool) -> None:
    """List sessions, the most recently used first."""

    async def look(opened: SessionStore) -> list[SessionInfo]:
        return [*await opened.list(status=status, limit=limit)]

    found = _with_store(store, owner, look)
    if as_json:
        _print_json({"sessions": [asdict(info) for info in found]})
    elif not found:
        click.echo("no sessions; begin one with: deep run --session NAME TASK")
    for info in () if as_json else found:
        owner_of = f", of {_line(info.owner)}" if info.owner else ""
        runs = f", runs in {_line(info.holder)}" if info.holder else ""
        click.echo(f"{_line(info.id)}  {_shown_status(info)}, {_ago(info.updated_at)}{owner_of}{runs}")


@sessions.command("show")
@click.argument("session_id", metavar="SESSION")
@owner_option
@store_option
@json_option
def show(session_id: str, owner: str | None, store: str | None, as_json: bool) -> None:
    """Show the conversation of a session, and the calls that wait."""

    async def look(opened: SessionStore) -> Any:
        return fold(await opened.load(session_id))

    state = _with_store(store, owner, look)
    messages = state.messages()
    waiting = [] if state.run is None or state.run.requests is None else state.run.requests.approvals
    lines = [*_transcript(messages)]
    if as_json:
        calls = [{"id": call.tool_call_id, "tool": call.tool_name, "args": call.args_as_dict()} for call in waiting]
        said = [{"role": role, "text": text} for role, text in lines]
        _print_json({"session": asdict(state.info), "messages": said, "waiting": calls})
        return
    click.echo(f"{_line(state.info.id)}  {_shown_status(state.info)}, {_ago(state.info.updated_at)}")
    for role, text in lines:
        click.echo(f"\n{click.style(role, bold=True)}\n{visible(text)}")
    for call in waiting:
        click.echo(f"\nwaits for approval: {_line(call.tool_name)} {_line(call.args_as_json_str())}")


@sessions.command("resume")
@click.argument("session_id", metavar="SESSION")
@click.option("-m", "--model", metavar="MODEL", help="provider:name. Default: DEEP_MODEL, [agent] model.")
@click.option("--backend", metavar="NAME", default="local", help="Where files are. Default: local, the current folder.")
@click.option("--approve", type=click.Choice(["allow", "deny"]), help="Decide all calls that wait.")
@owner_option
@store_option
def resume(
    session_id: str, model: str | None, backend: str, approve: str | None, owner: str | None, store: str | None
) -> None:
    """Continue a session whose run was interrupted, or whose calls wait.

    Exit code 0: the run completed; 1: it failed; 3: calls still wait.
    """
    from pydantic_ai.exceptions import UserError

    from .agent import DeepAgent
    from .deps import AgentDeps

    async def run(opened: SessionStore) -> Any:
        with Kernel() as kernel:
            deps = AgentDeps(model=model, session_store=opened, runtime=backend, kernel=kernel)
            agent = await DeepAgent.create(config=kernel_model(kernel) if model is None else None, deps=deps)
            result = await agent.resume(session_id)
            while result.requests is not None and approve is not None:
                answers = result.requests.build_results(approve_all=approve == "allow", deny_all=approve == "deny")
                await agent.decide(session_id, answers)
                result = await agent.resume(session_id)
            return result

    try:
        result = _with_store(store, owner, run)
    except UserError as error:
        raise Failure(str(error), USAGE) from error
    if result.error is not None:
        raise Failure(result.error.message, FAILED)
    if result.requests is not None:
        for call in result.requests.approvals:
            click.echo(f"waits for approval: {_line(call.tool_name)} {_line(call.args_as_json_str())}", err=True)
        raise Failure(f"decide with: deep sessions resume {_line(session_id)} --approve allow", REFUSED)
    click.echo(visible(result.message or ""))


def kernel_model(kernel: Kernel) -> Any:
    """Return a configuration with the model that the kernel's configuration names."""
    from deep_core.plugin_api import read_agent_config

    named = read_agent_config(kernel.config).model.id
    return None if named is None else {"model": named}


@sessions.command("fork")
@click.argument("session_id", metavar="SESSION")
@click.option("--at", type=click.IntRange(min=1), metavar="ENTRY", help="Take the state after this entry.")
@click.option("--name", metavar="SESSION", help="The new session's name. Default: a random one.")
@owner_option
@store_option
def fork(session_id: str, at: int | None, name: str | None, owner: str | None, store: str | None) -> None:
    """Make a new session that continues from this one, which stays as it is. Prints the new name."""
    from . import manage

    click.echo(_line(_with_store(store, owner, lambda opened: manage.fork(opened, session_id, at=at, new_id=name))))


@sessions.command("rewind")
@click.argument("session_id", metavar="SESSION")
@click.option("--to", type=click.IntRange(min=1), required=True, metavar="ENTRY", help="The state after this entry.")
@owner_option
@store_option
def rewind(session_id: str, to: int, owner: str | None, store: str | None) -> None:
    """Set a session back. What came later stays in its journal; files in the workspace stay as they are."""
    from . import manage

    entry = _with_store(store, owner, lambda opened: manage.rewind(opened, session_id, to=to))
    click.echo(f"rewound to entry {to}; to undo: deep sessions rewind {_line(session_id)} --to {entry - 1}")


@sessions.command("delete")
@click.argument("session_ids", metavar="SESSION…", nargs=-1, required=True)
@owner_option
@store_option
def delete(session_ids: tuple[str, ...], owner: str | None, store: str | None) -> None:
    """Erase sessions, with what plugins keep of them."""
    from . import manage

    async def work(opened: SessionStore) -> None:
        with Kernel() as kernel:
            for session_id in session_ids:
                await manage.delete(opened, session_id, kernel=kernel)
                click.echo(f"deleted {_line(session_id)}")

    _with_store(store, owner, work)


@sessions.command("export")
@click.argument("session_id", metavar="SESSION")
@owner_option
@store_option
def export(session_id: str, owner: str | None, store: str | None) -> None:
    """Print all of a session as JSON Lines: of a damaged file, all that is whole."""
    from . import manage

    async def work(opened: SessionStore) -> None:
        async for line in manage.export(opened, session_id):
            click.echo(line)

    _with_store(store, owner, work)


def _transcript(messages: list[ModelMessage]) -> Iterator[tuple[str, str]]:
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, UserPromptPart

    for message in messages:
        for part in message.parts:
            if isinstance(part, UserPromptPart) and isinstance(part.content, str):
                yield "user", part.content
            elif isinstance(part, TextPart) and isinstance(message, ModelResponse):
                yield "agent", part.content
            elif isinstance(part, ToolCallPart):
                yield "tool", f"{part.tool_name} {part.args_as_json_str()}"


def _shown_status(info: SessionInfo) -> str:
    interrupted = info.status == "running" and info.holder is None
    return "interrupted" if interrupted else info.status


def _ago(at: float) -> str:
    seconds = max(0, int(time.time() - at))
    size, unit = next(((size, unit) for size, unit in AGO if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit} ago"


def _print_json(value: dict[str, Any]) -> None:
    click.echo(json.dumps({"schema": 1, **value}, ensure_ascii=True))


def _line(text: str) -> str:
    """Make foreign text safe for a terminal, on one line."""
    return visible(" ".join(text.split()))
