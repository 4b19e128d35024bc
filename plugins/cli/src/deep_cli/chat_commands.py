"""The slash commands of a chat."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deep_sessions import AgentError

from deep_core.plugin_api import suggest

from .errors import explain_error

if TYPE_CHECKING:
    from .chat import Chat
    from .chat_screen import ChatScreen

__all__ = ["COMMANDS", "is_command", "obey"]

_COMMAND = re.compile(r"/[a-z]+(?:\s|$)")


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
    """Whether a message is a command: a slash and letters at its start. `/etc/hosts is …` goes to the model."""
    return _COMMAND.match(text) is not None


async def obey(text: str, chat: Chat, screen: ChatScreen) -> bool:
    """Run a command.

    Returns:
        Whether the chat continues.
    """
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        screen.problem(
            f"no command {name}.{suggest(name, COMMANDS)}",
            "/help lists them; begin a message with a space.",
        )
        return True
    return await command.do(chat, screen, rest.strip())


async def _help(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    lines = [(f"{name} {command.usage}".strip(), command.about) for name, command in COMMANDS.items()]
    lines += [
        ("Enter", "send; while the agent works: queue the message"),
        ("Alt-Enter", "begin another line, as \\ at a line's end; while the agent works: steer it"),
        ("arrow up", "earlier messages"),
        ("Esc", "stop the turn"),
        ("Ctrl-C", "stop the turn; clear the line; at an empty prompt: leave"),
        ("Ctrl-D", "leave"),
    ]
    screen.show_lines("\n".join(f"  {key:<16} {about}" for key, about in lines))
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
        try:
            chat.use_model(rest)
        except Exception as error:  # noqa: BLE001 - show the error and continue the chat
            screen.problem(explain_error(error, rest).message, f"The model is still {chat.stored.model}.")
            return True
    screen.show_lines(f"  {chat.stored.model}")
    return True


async def _plan(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    chat.stored.plan = not chat.stored.plan
    screen.show_lines("  plan mode: only tools that read" if chat.stored.plan else "  plan mode is off")
    return True


async def _new(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if chat.is_resumable:
        screen.note(chat.how_to_go_on().replace("Continue with", "This one is kept"))
    await chat.begin_anew()
    screen.show_lines(f"  chat {chat.id}")
    return True


async def _quit(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    return False


COMMANDS: Mapping[str, ChatCommand] = {
    "/help": ChatCommand(_help, "", "this list"),
    "/model": ChatCommand(_model, "[MODEL]", "show or change the model"),
    "/plan": ChatCommand(_plan, "", "begin or leave plan mode: only tools that read until you approve a plan"),
    "/cost": ChatCommand(_cost, "", "requests, tokens and price of this chat"),
    "/new": ChatCommand(_new, "", "begin a new chat; this one is kept"),
    "/quit": ChatCommand(_quit, "", "leave; the chat is kept"),
}
"""The commands by name."""
