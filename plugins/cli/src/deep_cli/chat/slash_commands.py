"""The slash commands of a chat."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from deep_sessions import AgentError

from deep_core.plugin_api import suggest

from ..errors import doubt, explain_error
from ..failure import Failure
from ..terminal.screen import label, one_line, place
from .markdown import as_markdown, in_folder, write_new

if TYPE_CHECKING:
    from .conversation import Chat
    from .screen import ChatScreen

__all__ = ["COMMANDS", "all_commands", "is_command", "obey"]

LISTED = 40
"""Most lines of a list."""
_COMMAND = re.compile(r"/[a-z0-9][a-z0-9_.:-]*(?:\s|$)|!")


@dataclass(frozen=True)
class ChatCommand:
    """One command.

    Attributes:
        do: runs it with the text after its name; returns False to end the chat.
        usage: its arguments, as `/help` shows them.
        about: what it does, in few words.
    """

    do: Callable[[Chat, ChatScreen, str], Awaitable[bool]]
    usage: str
    about: str


def is_command(text: str) -> bool:
    """Whether a message is a command: `!`, or a slash and a name at its start. `/etc/hosts is …` goes to the model."""
    return _COMMAND.match(text) is not None


async def obey(text: str, chat: Chat, screen: ChatScreen) -> bool | str:
    """Run a command.

    Returns:
        Whether the chat continues; or the message to send.
    """
    if text.startswith("!"):
        from .own_command import run_own

        await run_own(text[1:].strip(), chat, screen)
        return True
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    try:
        if command is not None:
            return await command.do(chat, screen, rest.strip())
        message = await chat.render(name[1:], rest.strip())
    except (AgentError, Failure) as error:
        screen.problem(error.message)
        return True
    except ValueError as error:
        screen.problem(f"{name}: {error}")
        return True
    if message is not None:
        return message
    names = [*COMMANDS, *(f"/{own}" for own in chat.plugin_commands())]
    screen.problem(f"no command {name}.{suggest(name, names)}", "/help lists them; begin a message with a space.")
    return True


def all_commands(chat: Chat) -> list[tuple[str, str]]:
    """Return the names of all commands, and what they do."""
    own = [(name, command.about) for name, command in COMMANDS.items()]
    return [*own, *((f"/{name}", command.about) for name, command in chat.plugin_commands().items())]


async def _help(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    lines = [(f"{name} {command.usage}".strip(), command.about) for name, command in COMMANDS.items()]
    lines += [
        ("Enter", "send; while the agent works: queue the message"),
        ("Alt-Enter", "begin another line, as \\ at a line's end; while the agent works: steer it"),
        ("arrow up", "earlier messages"),
        ("Esc", "stop the turn, or your own command"),
        ("Ctrl-C", "stop the turn; clear the line; at an empty prompt: leave"),
        ("Ctrl-D", "leave"),
        ("Shift-Tab", "the next mode: ask, accept-edits, plan"),
        ("@FILE", "attach a text file or a picture; Tab completes its name"),
        ("Tab", "complete a command, or a file after @"),
        ("!COMMAND", "run a command of your own; @! gives the agent its output"),
        ("!!COMMAND", "the same, with the terminal: for an editor or a pager"),
    ]
    lines += [(f"/{name} {own.usage}".strip(), own.about) for name, own in chat.plugin_commands().items()]
    screen.show_lines("\n".join(f"  {label(key):<20} {one_line(about, 90)}" for key, about in lines))
    return True


async def _cost(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    try:
        usage = await chat.usage()
    except AgentError as error:
        screen.problem(error.message)
        return True
    cached_text = f" ({usage.cache_read_tokens:,} of them cached)" if usage.cache_read_tokens else ""
    about = f"{usage.requests:,} requests, {usage.input_tokens:,} tokens in{cached_text}, {usage.output_tokens:,} out"
    price = "the price of this model is not known" if usage.cost is None else f"about ${usage.cost:.4f}"
    screen.show_lines(f"  {about}; {price}")
    return True


async def _model(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if rest:
        wrong, still = doubt(rest), f"The model is still {chat.stored.model}."
        if wrong and not await chat.agrees(f"{wrong} Use it?"):
            screen.problem(wrong, still)
            return True
        try:
            chat.use_model(rest)
        except Exception as error:  # noqa: BLE001 - show the error and continue the chat
            screen.problem(explain_error(error, rest).message, still)
            return True
    screen.show_lines(f"  {chat.stored.model}")
    return True


async def _plan(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    chat.stored.plan = not chat.stored.plan
    screen.show_lines("  plan mode: only tools that read" if chat.stored.plan else "  plan mode is off")
    return True


async def _undo(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if rest and not rest.isdecimal():
        screen.problem(f"{rest} is no number of turns", "Type /undo, or /rewind 2 to take back two turns.")
        return True
    done = await chat.take_back(int(rest[:6] or 1))
    if done is None:
        screen.problem(
            f"there are {len(chat.log)} turns to take back",
            "Only turns of this process, since the chat was begun, resumed or forked, can be taken back.",
        )
        return True
    for path in done.restored:
        screen.show_lines(f"  restored {label(path)}")
    for path in done.left:
        screen.problem(f"left as it is: {label(path)}", "Something else changed it since, or it cannot be written.")
    screen.show_lines("  The conversation is as it was before. What commands did to files stays.")
    return True


async def _diff(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    lines = await chat.diff()
    screen.show_diff(lines) if lines else screen.show_lines("  tools changed no file in this chat")
    return True


async def _fork(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if not chat.is_resumable:
        screen.problem("there is nothing to fork yet")
        return True
    before = chat.id
    await chat.fork()
    screen.show_lines(f"  chat {chat.id}, a copy of {before}, which stays as it is")
    return True


async def _sessions(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    found = await chat.others(rest)
    for digits, title in found[:LISTED]:
        screen.show_lines(f"  {digits}  {one_line(title, 70)}{'  (this one)' if digits == chat.id else ''}")
    if len(found) > LISTED:
        screen.show_lines(f"  and {len(found) - LISTED} more: /sessions WORDS searches their titles")
    if found:
        screen.note("  /resume ID continues one")
    else:
        screen.show_lines("  no chat of this folder" + (" has these words in its title" if rest else " yet"))
    return True


async def _search(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if not rest:
        screen.problem("search for what?", "Type /search WORDS: messages of this folder's chats that have them.")
        return True
    found = await chat.search(rest)
    for digits, role, text in found[:LISTED]:
        screen.show_lines(f"  {digits}  {role:<9}  {one_line(text, 140)}")
    if len(found) > LISTED:
        screen.show_lines(f"  and {len(found) - LISTED} more: search for more words")
    screen.note("  /resume ID continues one" if found else "  no message of this folder's chats has these words")
    return True


async def _copy(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    text = chat.last_answer()
    if not text:
        screen.problem("there is no answer to copy yet")
        return True
    screen.copy(text)
    screen.show_lines(f"  copied {len(text):,} characters, if this terminal lets programs use its clipboard (OSC 52)")
    return True


async def _export(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if not chat.stored.messages:
        screen.problem("there is nothing to export yet")
        return True
    path = in_folder(chat.stored.folder, rest or f"chat-{chat.id}.md")
    try:
        write_new(path, as_markdown(chat.stored.messages))
    except OSError as error:
        screen.problem(f"{label(path)}: {error.strerror or error}", "Name another file: /export FILE")
        return True
    screen.show_lines(f"  written to {label(path)}")
    return True


async def _resume(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    await chat.go_to(rest or "newest")
    screen.show_lines(f"  chat {chat.id}")
    screen.replay(chat.stored.messages)
    await chat.finish_last_turn()
    return True


async def _tools(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    for tool in chat.tools():
        if not rest or rest in (tool.plugin, tool.name):
            asks = "" if tool.approval == "never" else f", asks: {tool.approval}"
            screen.show_lines(f"  {label(tool.name):<24} {label(tool.plugin)}{asks}")
    return True


async def _mcp(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    tools = [tool for tool in chat.tools() if tool.plugin == "mcp"]
    if not tools:
        screen.show_lines(
            "  no MCP server's tool is offered: `deep mcp list` shows the servers, `deep mcp add NAME COMMAND` adds one"
        )
        return True
    return await _tools(chat, screen, "mcp")


async def _rules(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    rules = screen.rules
    if rules is None or not (rules.of_chat or rules.kept or rules.accepts_edits):
        screen.show_lines("  no rules: calls ask as the policy says")
    elif rest == "forget":
        rules.drop()
        if chat.mode == "accept-edits":
            chat.switch_mode("ask")
        screen.show_lines("  forgotten: every call asks again")
    else:
        for rule in rules.of_chat:
            screen.show_lines(f"  {rule.about}  (this chat)")
        for rule in rules.kept:
            screen.show_lines(f"  {rule.about}")
        if rules.accepts_edits:
            screen.show_lines("  every chat of this folder begins in mode accept-edits")
        screen.note("  /rules forget deletes them" + (f"; kept in {place(rules.file)}" if rules.kept else ""))
    return True


async def _mode(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if rest == "keep":
        chat.keep_mode()
        screen.show_lines(f"  chats of this folder begin in mode {chat.mode}")
        return True
    if rest and rest not in MODES:
        raise ValueError(f"no mode {rest}.{suggest(rest, MODES)} Type one of {', '.join(MODES)}, or keep")
    chat.switch_mode(rest)
    screen.show_lines(f"  mode {chat.mode}: {MODES[chat.mode]}")
    return True


async def _retry(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    await chat.turn(None, how="again")
    return True


async def _compact(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    screen.show_lines(f"  {await chat.compact(rest)}")
    return True


async def _new(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if chat.is_resumable:
        screen.note(chat.how_to_go_on().replace("Continue with", "This one is kept"))
    await chat.begin_anew()
    screen.show_lines(f"  chat {chat.id}")
    return True


async def _worktree(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    from ..run import worktrees

    verb, _, name = rest.partition(" ")
    folder, name = Path(chat.stored.folder), name.strip()
    if verb in ("", "list"):
        found = worktrees.list_worktrees(folder)
        for each in found:
            here = "  (this one)" if folder.is_relative_to(each.path) else ""
            screen.show_lines(f"  {label(each.name)}  {worktrees.summary(each)}{here}")
        ways = "diff, merge or drop, with a NAME; " if found else ""
        screen.note(f"  /worktree {ways}new begins a chat in a new one")
        return True
    if verb == "new":
        made, chat.elsewhere = await asyncio.to_thread(_new_worktree, folder, name)
        screen.show_lines(f"  worktree {label(made)}, of what is committed; /worktree merge or drop ends it")
        return False
    if verb not in ("diff", "merge", "drop"):
        raise ValueError(f"no {verb}: type new, list, diff, merge or drop")
    found = worktrees.find_worktree(folder, name)
    screen.show_diff(worktrees.diff_of(found).splitlines())
    screen.show_lines(f"  {worktrees.summary(found)}")
    if verb == "diff" or not await chat.agrees(f"{verb} the worktree {label(found.name)}?"):
        return True
    leaves = folder.is_relative_to(found.path)
    if leaves:  # no process can work in a folder that is gone
        await chat.background.end()
        os.chdir(found.main)
    if verb == "merge":
        screen.show_lines(f"  merged into {label(worktrees.merge(found))}")
    else:
        worktrees.drop(found)
        screen.show_lines("  dropped")
    if leaves:
        chat.elsewhere = str(found.main)
        return False
    return True


def _new_worktree(folder: Path, name: str) -> tuple[str, str]:
    from ..run.worktrees import add_worktree

    made, here = add_worktree(folder, name)
    return made.name, str(here)


async def _commands(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    for line in await chat.background.obey(rest):
        screen.show_lines(f"  {one_line(line, 100)}")
    return True


async def _quit(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    return False


MODES = {
    "ask": "changes to files ask, and calls as the policy says",
    "accept-edits": "changes to a file of the workspace do not ask",
    "plan": "only tools that read, until you approve a plan",
}
COMMANDS: Mapping[str, ChatCommand] = {
    "/help": ChatCommand(_help, "", "this list"),
    "/undo": ChatCommand(_undo, "", "take back the last turn: the conversation, and what tools changed in files"),
    "/retry": ChatCommand(_retry, "", "try the last turn again, from where it failed or was stopped"),
    "/rewind": ChatCommand(_undo, "TURNS", "take back several turns"),
    "/diff": ChatCommand(_diff, "", "what tools changed in files in this chat"),
    "/fork": ChatCommand(_fork, "", "continue in a copy of this chat"),
    "/sessions": ChatCommand(_sessions, "[WORDS]", "chats of this folder; with words in their title"),
    "/resume": ChatCommand(_resume, "[ID]", "leave this chat, and continue another"),
    "/tools": ChatCommand(_tools, "[PLUGIN]", "the tools that the model is offered"),
    "/mcp": ChatCommand(_mcp, "", "the tools of MCP servers"),
    "/commands": ChatCommand(
        _commands, "[stop|keep NAME]", "background commands; stop one, or let it go on when the chat ends"
    ),
    "/rules": ChatCommand(_rules, "[forget]", "what you approved always, in this chat or kept for this project"),
    "/mode": ChatCommand(_mode, "[MODE|keep]", "the next mode, or ask, accept-edits, plan; keep: for this folder"),
    "/model": ChatCommand(_model, "[MODEL]", "show or change the model"),
    "/plan": ChatCommand(_plan, "", "begin or leave plan mode: only tools that read until you approve a plan"),
    "/compact": ChatCommand(
        _compact, "[WHAT TO KEEP]", "summarize the conversation so far, and go on from the summary"
    ),
    "/cost": ChatCommand(_cost, "", "requests, tokens and price of this chat"),
    "/new": ChatCommand(_new, "", "begin a new chat; this one is kept"),
    "/clear": ChatCommand(_new, "", "the same as /new"),
    "/worktree": ChatCommand(
        _worktree,
        "[new|list|diff|merge|drop]",
        "a chat in a git worktree; what it changed, merged or dropped",
    ),
    "/search": ChatCommand(_search, "WORDS", "messages of this folder's chats that have these words"),
    "/copy": ChatCommand(_copy, "", "copy the last answer to the clipboard"),
    "/export": ChatCommand(_export, "[FILE]", "write this chat as Markdown"),
    "/quit": ChatCommand(_quit, "", "leave; the chat is kept"),
    "/exit": ChatCommand(_quit, "", "the same as /quit"),
}
"""The commands by name."""
