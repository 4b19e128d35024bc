"""Open, run and store the conversation of `deep chat`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from deep_sessions import default_store, open_store

from deep_core import Kernel

from .agent import make_agent
from .approval import ApprovalMode
from .attach import with_files
from .chat import Chat, Left
from .chat_commands import is_command, obey
from .chat_input import prompt_messages, read_lines
from .chat_screen import ChatScreen
from .chat_sessions import StoredChat, find_chat
from .failure import FAILED, INTERRUPTED, REFUSED
from .interrupts import ChatLoop
from .names import chats_folder, new_id, project
from .options import cli_options
from .progress import CliProgress
from .screen import is_text, one_line, redirect_prints

__all__ = ["run_chat"]

NOT_TEXT = "Set the terminal to UTF-8; convert a file with iconv -t UTF-8."
PLAN_NOTE = "plan mode: only tools that read; /plan leaves it"
HINT = "/help lists the commands. Ctrl-C stops a turn, Ctrl-D leaves."


def run_chat(
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
    plan: bool = False,
) -> int:
    """Talk until the messages end.

    Args:
        model: its id; None takes that of the resumed chat, then the configuration's.
        backend: its name; None likewise, then `local`.
        files: text files to send with the first message.
        approve: how to decide calls that need approval; None reads `[plugins.cli] options`.
        max_requests: maximum requests of one message; None likewise.
        plugins: in addition to the installed ones.
        resume: the id of a stored chat, or `NEWEST`; None begins a new one.
        config: a configuration file; it is trusted.
        trace: show the traceback of an error.
        plan: begin in plan mode.

    Returns:
        The exit code. On a terminal 0, else 1 if a turn failed, 3 if an approval was denied. 130 if Ctrl-C
        ended it in the middle of a turn.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: a required plugin failed, two plugins clash, or no plugin provides the backend.
        Failure: no model is named, a file cannot be attached, or the chat cannot be resumed.
        Exception: any error of the model's provider before the first message: no key, no package, no such model.
    """
    folder, screen, loop = os.path.realpath(Path.cwd()), ChatScreen(), ChatLoop()
    store = open_store(default_store())
    stored = StoredChat(new_id(folder), folder)
    if resume is not None:
        stored = loop.run(find_chat(store, resume, folder))
    stored.plan = stored.plan or plan
    progress = CliProgress(screen)
    terminal = screen.ask is not None
    with (
        nullcontext() if terminal else redirect_prints(),
        Kernel(plugins=[progress, *plugins], config=config) as kernel,
    ):
        options = cli_options(kernel.config)
        attachments = with_files("", files, options.attach_chars) if files else ""
        model, backend = model or stored.model, backend or stored.backend
        setup = make_agent(kernel, model, backend, is_stored=True, has_person=terminal)
        chat = Chat(
            kernel,
            progress,
            setup,
            stored,
            store,
            screen,
            approve=approve or options.approve,
            max_requests=max_requests or options.max_requests,
            loop=loop,
            trace=trace,
        )
        _open(chat, screen, terminal=terminal, resumed=resume is not None)
        typed = prompt_messages(chats_folder() / project(folder)) if terminal else read_lines()
        interrupted = _talk(chat, screen, typed, attachments)
        if chat.is_resumable:
            screen.note(chat.how_to_go_on())
        chat.leave()
    # On a terminal the user has seen what failed and what was denied.
    code = 0 if terminal else FAILED if chat.failed else REFUSED if chat.has_denials else 0
    code = INTERRUPTED if interrupted else code
    if chat.stopped and loop.stuck():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    chat.close()
    loop.close()
    return code


def _open(chat: Chat, screen: ChatScreen, *, terminal: bool, resumed: bool) -> None:
    stored = chat.stored
    about = f"{stored.model}, backend {stored.backend}, in {stored.folder}"
    screen.show_title(f"deep chat {chat.id}", about, HINT if terminal else "")
    if stored.plan:
        screen.note(PLAN_NOTE)
    if resumed:
        screen.show_exchange(*chat.last_exchange())


def _talk(chat: Chat, screen: ChatScreen, messages: Iterable[str], attachments: str) -> bool:
    """Take messages until they end; return whether Ctrl-C ended it."""
    try:
        chat.finish_last_turn()
        for text in messages:
            if is_command(text):
                if not obey(text, chat, screen):
                    break
                continue
            if not is_text(text):
                chat.failed = True
                screen.problem(f"not sent, it is not UTF-8: {one_line(text, 60)}", NOT_TEXT)
                continue
            end = chat.turn(text + attachments)
            while end == "done" and chat.stored.plan and (message := chat.ask_about_plan()) is not None:
                end = chat.turn(message)
            if end == "stopped" and screen.ask is None:
                return True
            if end != "lost":
                attachments = ""
    except Left as left:
        return isinstance(left.__cause__, KeyboardInterrupt)
    except KeyboardInterrupt:
        return True
    return False
