"""From what was typed after `deep chat` to its exit code: open a conversation, take messages, leave it stored."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from pathlib import Path

from deep_core import Kernel

from .agent import make_agent
from .approval import ApprovalMode
from .attach import with_files
from .chat import Chat, Left
from .chat_commands import is_command, obey
from .chat_input import prompted, typed_lines
from .chat_screen import ChatScreen
from .chat_store import ChatStore, StoredChat
from .failure import FAILED, INTERRUPTED, REFUSED
from .interrupts import ChatLoop
from .options import cli_options
from .progress import CliProgress
from .screen import answers_alone, is_text, one_line

__all__ = ["NEWEST", "run_chat"]

NEWEST = "newest"
"""`--resume` without an id."""
NOT_TEXT = "Set the terminal to UTF-8; a file is converted with iconv -t UTF-8."
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
) -> int:
    """Talk until there are no more messages.

    Args:
        model: its id; None means that of the resumed chat, else what the configuration says.
        backend: its name; None likewise, else `local`.
        files: text files that go with the first message.
        approve: what becomes of calls that need approval; None means what `[plugins.cli] options` say.
        max_requests: the most requests of one message; None likewise.
        plugins: besides the installed ones.
        resume: the id of a stored chat, or `NEWEST`; None begins one.
        config: a configuration file, trusted as code is.
        trace: show the traceback of an error.

    Returns:
        The exit code. On a terminal 0, else 1 where a turn failed, 3 where an approval was refused. 130 where Ctrl-C
        ended it in the middle of a turn.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: a plugin that was named failed, two plugins clash, or no plugin provides the backend.
        Failure: no model is named, a file cannot be attached, or the chat cannot be resumed.
        Exception: whatever the model's provider raises before the first message: no key, no package, no such model.
    """
    folder, store, screen = os.path.realpath(Path.cwd()), ChatStore(), ChatScreen()
    stored = _resumed(store, resume, folder)
    progress = CliProgress(screen)
    terminal = screen.ask is not None
    with nullcontext() if terminal else answers_alone(), Kernel(plugins=[progress, *plugins], config=config) as kernel:
        options = cli_options(kernel.config)
        attached = with_files("", files, options.attach_chars) if files else ""
        made = make_agent(kernel, model or (stored and stored.model), backend or (stored and stored.backend))
        loop = ChatLoop()
        chat = Chat(
            kernel,
            progress,
            made,
            stored or store.new(folder, made.model, made.backend),
            store,
            screen,
            approve=approve or options.approve,
            max_requests=max_requests or options.max_requests,
            loop=loop,
            trace=trace,
        )
        _open(chat, screen, terminal=terminal, resumed=stored is not None)
        interrupted = _talk(chat, screen, prompted(store.project(folder)) if terminal else typed_lines(), attached)
        if chat.kept:
            screen.note(chat.how_to_go_on())
    # On a terminal, whoever sat there has seen what failed and what was refused.
    code = 0 if terminal else FAILED if chat.failed else REFUSED if chat.refused else 0
    code = INTERRUPTED if interrupted else code
    if chat.stopped and loop.stuck():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    loop.close()
    return code


def _resumed(store: ChatStore, resume: str | None, folder: str) -> StoredChat | None:
    if resume is None:
        return None
    return store.newest(folder) if resume == NEWEST else store.load(resume, folder)


def _open(chat: Chat, screen: ChatScreen, *, terminal: bool, resumed: bool) -> None:
    stored = chat.stored
    about = f"{stored.model}, backend {stored.backend}, in {stored.folder}"
    screen.opened(f"deep chat {stored.id}", about, HINT if terminal else "")
    if resumed and chat.begun:
        screen.recalled(*chat.last_exchange())


def _talk(chat: Chat, screen: ChatScreen, messages: Iterable[str], attached: str) -> bool:
    """Take messages until there are no more; returns whether Ctrl-C ended it."""
    try:
        if chat.stored.pending is not None:
            chat.turn(None)
        for text in messages:
            if is_command(text):
                if not obey(text, chat, screen):
                    break
                continue
            if not is_text(text):
                chat.failed = True
                screen.problem(f"not sent, it has bytes that are not UTF-8: {one_line(text, 60)}", NOT_TEXT)
                continue
            end = chat.turn(text + attached)
            if end == "stopped" and screen.ask is None:
                return True
            if end != "lost":
                attached = ""
    except Left as left:
        return isinstance(left.__cause__, KeyboardInterrupt)
    except KeyboardInterrupt:
        return True
    return False
