"""`deep sessions`. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from deep_cli import Failure, agent_options, one_line, run_command, say, say_json, say_text, store_option

from deep_core import ConfigError, Kernel, MissingExtra
from deep_core.plugin_api import visible

from .conversations import is_person
from .errors import AgentError, SessionNotFound
from .store import SessionInfo, SessionStore
from .stores.open import default_store, open_store

if TYPE_CHECKING:
    from .full_text import Found

__all__ = ["sessions"]

T = TypeVar("T")
_line = partial(one_line, width=None)
USAGE = 2
"""The exit code, as that of `deep run`."""
AGO = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))
owner_option = click.option("--owner", metavar="NAME", help="Only the sessions of this owner.")
json_option = click.option("--json", "as_json", is_flag=True, help='Print JSON ("schema": 1, documented).')


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
        say_json({"schema": 1, "sessions": [asdict(info) for info in found]})
    elif not found:
        say("no sessions; begin one with: deep run --session NAME TASK")
    for info in () if as_json else found:
        owner_of = f", of {_line(info.owner)}" if info.owner and not is_person(info.owner) else ""
        runs = f", runs in {_line(info.holder)}" if info.holder else ""
        say(f"{_line(info.id)}  {_shown_status(info)}, {_ago(info.updated_at)}{owner_of}{runs}")


@sessions.command("search")
@click.argument("words", metavar="WORDS…", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many messages.")
@owner_option
@store_option
@json_option
def search(words: tuple[str, ...], limit: int, owner: str | None, store: str | None, as_json: bool) -> None:
    """Search all stored conversations for messages that have these words, or words that begin so."""
    from .full_text import find_messages
    from .reading import title_of

    async def look(opened: SessionStore) -> list[tuple[Found, str]]:
        found = await find_messages(opened, " ".join(words), limit=limit)
        titles = {id: await title_of(opened, id) for id in dict.fromkeys(each.session_id for each in found)}
        return [(each, titles[each.session_id]) for each in found]

    found = _with_store(store, owner, look)
    if as_json:
        say_json({"schema": 1, "messages": [{**asdict(each), "title": title} for each, title in found]})
        return
    if not found:
        say("no message has these words")
    shown = ""
    for each, title in found:
        if each.session_id != shown:
            say((_line(each.session_id), "bold"), f"  {_line(title)}")
        shown = each.session_id
        say((f"  {each.role:<6}", "dim"), _line(each.text))


@sessions.command("show")
@click.argument("session_id", metavar="SESSION")
@owner_option
@store_option
@json_option
def show(session_id: str, owner: str | None, store: str | None, as_json: bool) -> None:
    """Show the conversation of a session, and the calls that wait."""
    from .plain import Said, args_of, args_text, read_said

    async def look(opened: SessionStore) -> Said:
        return read_said(await opened.load(session_id))

    said = _with_store(store, owner, look)
    said.keep_prompt()  # it runs, or its process died
    info, run = said.info, said.run or {}
    if as_json:
        calls = [call for _, call in said.waiting]
        waiting = [{"id": call["tool_call_id"], "tool": call["tool_name"], "args": args_of(call)} for call in calls]
        messages = [{"role": role, "text": text} for role, text in said.lines]
        say_json({"schema": 1, "session": asdict(info), "messages": messages, "waiting": waiting})
        return
    say(f"{_line(info.id)}  {_shown_status(info)}, {_ago(info.updated_at)}")
    for role, text in said.lines:
        say("\n", (role, "bold"), f"\n{text}")
    if run.get("status") == "completed" and run.get("finish_reason") not in (None, "stop"):
        from .requests.ends import words_of_end

        if cut := words_of_end(run["finish_reason"]):
            say(f"\nnot whole: {cut}")
    if run.get("status") == "failed":
        why = _line(str((run["error"] or {"message": ""})["message"]))
        say(f"\nfailed: {why}; try it again: deep run --session {_line(info.id)} --retry")
    for what, call in said.waiting:
        say(f"\nwaits for {what}: {_line(call['tool_name'])} {_line(args_text(call))}")


@sessions.command("resume")
@click.argument("session_id", metavar="SESSION")
@agent_options(files=False)
@store_option
@click.pass_context
def resume(ctx: click.Context, session_id: str, **options: Any) -> None:
    """Continue a session whose run was interrupted, or whose calls wait for approval.

    The same as `deep run --session SESSION` without a task.
    """
    ctx.invoke(run_command, session=session_id, **options)


@sessions.command("fork")
@click.argument("session_id", metavar="SESSION")
@click.option("--at", type=click.IntRange(min=1), metavar="ENTRY", help="Take the state after this entry.")
@click.option("--name", metavar="SESSION", help="The new session's name. Default: a random one.")
@owner_option
@store_option
def fork(session_id: str, at: int | None, name: str | None, owner: str | None, store: str | None) -> None:
    """Make a new session that continues from this one, which stays as it is. Prints the new name."""
    from . import branching

    say(_line(_with_store(store, owner, lambda opened: branching.fork(opened, session_id, at=at, new_id=name))))


@sessions.command("rewind")
@click.argument("session_id", metavar="SESSION")
@click.option("--to", type=click.IntRange(min=1), required=True, metavar="ENTRY", help="The state after this entry.")
@owner_option
@store_option
def rewind(session_id: str, to: int, owner: str | None, store: str | None) -> None:
    """Set a session back. What came later stays in its journal; files in the workspace stay as they are."""
    from . import branching

    entry = _with_store(store, owner, lambda opened: branching.rewind(opened, session_id, to=to))
    say(f"rewound to entry {to}; to undo: deep sessions rewind {_line(session_id)} --to {entry - 1}")


@sessions.command("delete")
@click.argument("session_ids", metavar="SESSION…", nargs=-1, required=True)
@owner_option
@store_option
def delete(session_ids: tuple[str, ...], owner: str | None, store: str | None) -> None:
    """Erase sessions, with what plugins keep of them."""
    from . import removing

    async def work(opened: SessionStore) -> None:
        with Kernel() as kernel:
            for session_id in session_ids:
                await removing.delete(opened, session_id, kernel=kernel)
                say(f"deleted {_line(session_id)}")

    _with_store(store, owner, work)


@sessions.command("export")
@click.argument("session_id", metavar="SESSION")
@owner_option
@store_option
def export(session_id: str, owner: str | None, store: str | None) -> None:
    """Print all of a session as JSON Lines: of a damaged file, all that is whole."""
    from . import reading

    async def work(opened: SessionStore) -> None:
        async for line in reading.export(opened, session_id):
            say_text(line, sys.stdout)

    _with_store(store, owner, work)


@sessions.command("import-chats")
@click.option("--dry-run", is_flag=True, help="Only list them.")
def import_chats(dry_run: bool) -> None:
    """Store the chats of earlier versions of deep chat, which are files, as sessions.

    The files stay. A chat that is a session already, and a file that cannot be read, are skipped.
    """
    from deep_cli import chats_folder

    if not any(chats_folder().glob("*/*.json")):
        say("no chats of earlier versions; deep sessions list shows the stored ones")
        return
    from deep_cli import read_old_chats

    from .branching import begin
    from .plain import base_of, slots_of

    async def work(opened: SessionStore) -> None:
        for chat in read_old_chats():
            name = _line(chat.session_id)
            if chat.problem:
                say(f"skipped {_line(str(chat.path))}: {_line(chat.problem)}; fix the file, or delete it")
            elif await _exists(opened, chat.session_id):
                say(f"skipped {name}: it is a session already")
            elif dry_run:
                say(f"would import {name}")
            else:
                run: dict[str, Any] = {"id": "import", "status": "completed", "labels": chat.labels}
                run["usage"] = chat.usage
                if chat.requests is not None:
                    run |= {"status": "paused", "requests": chat.requests}
                base = base_of(chat.messages, slots_of(chat.state), run=run)
                await begin(opened, chat.session_id, base, "idle" if chat.requests is None else "awaiting")
                say(f"imported {name}")

    _with_store(None, None, work)


@sessions.command("import")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--dry-run", is_flag=True, help="Only list them.")
@store_option
def import_foreign(paths: tuple[Path, ...], dry_run: bool, store: str | None) -> None:
    """Store conversations of Claude Code or Codex as sessions of the folders where they took place.

    PATH is a file of one, or a folder: ~/.claude/projects, ~/.codex/sessions. The files stay. What is a session already
    is skipped. Then: deep chat --resume ID, in that folder.
    """
    from .branching import begin
    from .conversations import folder_owner
    from .foreign import conversation_files, read_foreign
    from .plain import base_of

    async def work(opened: SessionStore) -> int:
        count = 0
        for path in conversation_files(paths):
            name = _line(str(path))
            try:
                found = read_foreign(path)
            except OSError as error:
                say(f"skipped {name}: {error.strerror or error}")
                continue
            if found is None or not found.messages:
                say(f"skipped {name}: no conversation of Claude Code or Codex")
                continue
            folder = found.folder or str(path.parent)
            view = opened.for_owner(folder_owner(folder))
            if await _exists(opened, found.session_id):
                say(f"skipped {name}: it is a session already")
                continue
            lost = f", without {found.damaged} damaged lines" if found.damaged else ""
            if not dry_run:
                labels = {"folder": visible(folder), "from": found.maker}
                run = {"id": "import", "status": "completed", "labels": labels}
                await begin(view, found.session_id, base_of(found.messages, {}, run=run))
                count += 1
            verb = "would import" if dry_run else "imported"
            say(f"{verb} {name}: {found.session_id[-8:]}, {len(found.messages)} messages, in {_line(folder)}{lost}")
        return count

    _with_store(store, None, work)


async def _exists(store: SessionStore, session_id: str) -> bool:
    try:
        return (await store.info(session_id)).seq > 0
    except SessionNotFound:
        return False


def _shown_status(info: SessionInfo) -> str:
    interrupted = info.status == "running" and info.holder is None
    return "interrupted" if interrupted else info.status


def _ago(at: float) -> str:
    seconds = max(0, int(time.time() - at))
    size, unit = next(((size, unit) for size, unit in AGO if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit} ago"
