"""Open, run and store the conversation of `deep chat`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from deep_sessions import default_store, folder_store, open_store

from deep_core import Kernel

from ..failure import FAILED, INTERRUPTED, REFUSED
from ..options import cli_options
from ..plugins.files import files_of, load_again
from ..run.agent import find_agent, make_agent, own_agent
from ..run.approval import ApprovalMode
from ..run.attach import Attachment, as_prompt, check_pictures, read_files
from ..run.first_run import chooser
from ..run.names import chats_folder, new_id, project
from ..run.progress import CliProgress
from ..run.rules import rules_of
from ..run.watch import WatchCapability
from ..terminal.interrupts import ChatLoop
from ..terminal.screen import is_text, label, one_line, place, redirect_prints
from .conversation import Chat, Left
from .input import read_lines
from .screen import ChatScreen
from .slash_commands import all_commands, is_command, obey
from .stored import StoredChat, check_agent, find_chat

if TYPE_CHECKING:
    from .prompt import ChatPrompt

__all__ = ["run_chat"]

NOT_TEXT = "Set the terminal to UTF-8; convert a file with iconv -t UTF-8."
PLAN_NOTE = "plan mode: only tools that read; /plan leaves it"
BUSY = "Esc stops"
HINT = "/help lists the commands. Shift-Tab changes the mode, Esc stops a turn, Ctrl-D leaves."


def run_chat(**how: Unpack[ChatArguments]) -> int:
    """Talk until the messages end, also in the worktrees that the user goes to. Arguments, result and errors as for
    `_run_chat`.
    """
    while True:
        code, folder = _run_chat(**how)
        if not folder:
            return code
        os.chdir(folder)
        how["resume"], how["files"] = None, ()


class ChatArguments(TypedDict):
    """What `deep chat` was given."""

    model: str | None
    backend: str | None
    files: Sequence[Path]
    approve: ApprovalMode | None
    max_requests: int | None
    plugins: Sequence[object]
    resume: str | None
    config: Path | None
    trace: bool
    plan: bool
    agent_name: str | None


def _run_chat(
    *,
    model: str | None,
    backend: str | None,
    files: Sequence[Path],
    approve: ApprovalMode | None,
    max_requests: int | None,
    plugins: Sequence[object],
    resume: str | None,
    config: Path | None,
    trace: bool,
    plan: bool,
    agent_name: str | None,
) -> tuple[int, str]:
    """Talk until the messages end.

    Args:
        model: its id; None takes that of the resumed chat, then the configuration's.
        backend: its name; None likewise, then `local`.
        files: text files and pictures to send with the first message.
        approve: how to decide calls that need approval; None reads `[plugins.cli] options`.
        max_requests: maximum requests of one message; None likewise.
        plugins: in addition to the installed ones.
        resume: the id of a stored chat, or `NEWEST`; None begins a new one.
        config: a configuration file; it is trusted.
        trace: show the traceback of an error.
        plan: begin in plan mode.
        agent_name: the name of an agent of your own; None for deep's.

    Returns:
        The exit code. On a terminal 0, else 1 if a turn failed, 3 if an approval was denied. 130 if Ctrl-C
        ended it in the middle of a turn. And the folder of the chat that follows; "" for none.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: a required plugin failed, two plugins clash, or no plugin provides the backend.
        Failure: no model is named, a file cannot be attached, or the chat cannot be resumed.
        Exception: any error of the model's provider before the first message: no key, no package, no such model.
    """
    folder, loop = os.path.realpath(Path.cwd()), ChatLoop()
    prompt = loop.run(_make_prompt(chats_folder() / project(folder))) if sys.stdin.isatty() else None
    how: dict[str, Any] = {} if prompt is None else {"stream": prompt.stream, "foot": prompt}
    screen = ChatScreen(**how, verbose=trace)
    screen.rules = None if prompt is None else rules_of(folder)
    store = loop.run(folder_store(open_store(default_store()), folder))
    stored = StoredChat(new_id(folder), folder, is_new=True)
    if resume is not None:
        stored = loop.run(find_chat(store, resume, folder))
        check_agent(stored, agent_name or "")
    stored.agent = agent_name or ""
    stored.plan = stored.plan or plan
    again, missing = load_again(stored.plugin_files, plugins, folder)
    stored.plugin_files = {**{path: stored.plugin_files[path] for path in missing}, **files_of([*plugins, *again])}
    plugins = [*plugins, *again]
    progress = CliProgress(screen)
    terminal = prompt is not None
    with (
        nullcontext() if terminal else redirect_prints(),
        Kernel(plugins=[progress, *plugins], config=config) as kernel,
    ):
        options = cli_options(kernel.config)
        attachments = read_files(files, options.attach_chars)
        model, backend = model or stored.model, backend or stored.backend
        approve = approve or options.approve
        person = {"is_stored": True, "has_person": terminal, "edits_ask": terminal and approve == "ask"}
        if agent_name is not None:
            own, watch = loop.run(find_agent(agent_name, folder)), WatchCapability(progress, counts=True)
            make = partial(own_agent, kernel, own, watch)
            setup = make(model)
        else:
            make = partial(make_agent, kernel, backend=backend, **person)
            setup = make(model, choose=chooser())
        check_pictures(attachments, setup.agent.model)
        chat = Chat(
            kernel,
            progress,
            setup,
            stored,
            store,
            screen,
            make=make,
            plugin_files=files_of(plugins),
            prompt=prompt,
            approve=approve,
            max_requests=max_requests or options.max_requests,
            attach_chars=options.attach_chars,
            loop=loop,
            trace=trace,
        )
        _open(chat, screen, terminal=terminal, resumed=resume is not None)
        for path in files_of(again):
            screen.note(f"with -p {path}, as before")
        chat.tell_missing(missing)
        try:
            if prompt is None:
                interrupted = _talk(chat, screen, loop, read_lines(), attachments)
            else:
                interrupted = loop.run(_talk_at(prompt, chat, screen, attachments))
        except KeyboardInterrupt:
            interrupted = True
        if chat.is_resumable:
            screen.note(chat.how_to_go_on())
        loop.run(chat.leave())
    # On a terminal the user has seen what failed and what was denied.
    code = 0 if terminal else FAILED if chat.failed else REFUSED if chat.has_denials else 0
    code = INTERRUPTED if interrupted else code
    if chat.stopped and loop.stuck():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    loop.run(chat.close())
    loop.close()
    return code, chat.elsewhere


def _open(chat: Chat, screen: ChatScreen, *, terminal: bool, resumed: bool) -> None:
    stored = chat.stored
    about = f"{stored.model}, backend {stored.backend}, in {place(stored.folder)}"
    screen.show_title(f"deep chat {chat.id}", about, HINT if terminal else "")
    if stored.plan:
        screen.note(PLAN_NOTE)
    if resumed:
        screen.replay(stored.messages)


async def _make_prompt(folder: Path) -> ChatPrompt:
    from .prompt import ChatPrompt

    return ChatPrompt(folder)


def _talk(
    chat: Chat, screen: ChatScreen, loop: ChatLoop, messages: Iterable[str], attachments: Sequence[Attachment]
) -> bool:
    """Take the lines of a pipe until they end; return whether Ctrl-C ended it."""
    talk = _Talk(chat, screen, attachments)
    try:
        loop.run(chat.finish_last_turn())
        # Read outside the loop, so that Ctrl-C ends a wait for a line.
        return any(loop.run(talk.take(text)) for text in messages) and talk.was_stopped
    except Left as left:
        return left.interrupted


async def _talk_at(prompt: ChatPrompt, chat: Chat, screen: ChatScreen, attachments: Sequence[Attachment]) -> bool:
    """Take messages from the prompt until the user leaves; return whether a second Ctrl-C ended it."""
    talk = _Talk(chat, screen, attachments)
    prompt.steer = chat.steer
    prompt.about = lambda: BUSY if prompt.busy else f"{chat.mode} · {label(chat.stored.model or '')}"
    prompt.switch, prompt.go_on = chat.switch_mode, chat.go_on
    prompt.complete(lambda: all_commands(chat), chat.stored.folder)
    prompt.dropped = chat.mentions.dropped

    async def work() -> None:
        await chat.finish_last_turn()
        while True:
            text = await chat.meanwhile(prompt.message())
            if text is None:
                prompt.busy = True
                await chat.turn(None, how="next")
                continue
            screen.show_message(text)
            if await talk.take(text):
                return

    async with prompt.open() as left:
        worker = asyncio.ensure_future(work())
        await asyncio.wait([worker, left], return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            worker.cancel()
            await asyncio.wait([worker])
        elif isinstance(error := worker.exception(), Left):
            return error.interrupted
        elif error is not None:
            raise error
    return False


class _Talk:
    """Takes messages."""

    def __init__(self, chat: Chat, screen: ChatScreen, attachments: Sequence[Attachment]) -> None:
        self._chat = chat
        self._screen = screen
        self._attachments = attachments
        self.was_stopped = False

    async def take(self, text: str) -> bool:
        """Obey a command, or run a turn; return whether the chat ends."""
        chat, screen = self._chat, self._screen
        if is_command(text):
            message = await obey(text, chat, screen)
            if not isinstance(message, str):
                return not message
            text = message
        if not is_text(text):
            chat.failed = True
            screen.problem(f"not sent, it is not UTF-8: {one_line(text, 60)}", NOT_TEXT)
            return False
        message = chat.attach(text, self._attachments) if screen.is_live else as_prompt(text, self._attachments)
        if message is None:
            return False
        end = await chat.turn(message)
        while end == "done" and chat.stored.plan and (message := await chat.ask_about_plan()) is not None:
            screen.show_message(message)
            end = await chat.turn(message)
        self.was_stopped = end == "stopped"
        if end != "lost":
            self._attachments = ()
        return self.was_stopped and not screen.is_live
