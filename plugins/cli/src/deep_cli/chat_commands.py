"""What is typed with a slash in a chat. Few: the rest is for the model."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deep_core.plugin_api import suggest

from .explained import explained

if TYPE_CHECKING:
    from .chat import Chat
    from .chat_screen import ChatScreen

__all__ = ["COMMANDS", "is_command", "obey"]

_COMMAND = re.compile(r"/[a-z]+(?:\s|$)")


@dataclass(frozen=True)
class ChatCommand:
    """One command.

    Attributes:
        do: does it, given what is typed after its name; False ends the chat.
        usage: its arguments, as `/help` shows them.
        about: what it does, in a few words.
    """

    do: Callable[[Chat, ChatScreen, str], bool]
    usage: str
    about: str


def is_command(text: str) -> bool:
    """Whether a message is a command: a slash and letters at its very start. `/etc/hosts is …` is for the model."""
    return _COMMAND.match(text) is not None


def obey(text: str, chat: Chat, screen: ChatScreen) -> bool:
    """Do what a command says.

    Returns:
        Whether the chat goes on.
    """
    name, _, rest = text.strip().partition(" ")
    command = COMMANDS.get(name)
    if command is None:
        screen.problem(f"no command {name}.{suggest(name, COMMANDS)}", "/help lists them; a space before it sends it.")
        return True
    return command.do(chat, screen, rest.strip())


def _help(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    lines = [(f"{name} {command.usage}".strip(), command.about) for name, command in COMMANDS.items()]
    lines += [
        ("Enter", "send; Alt-Enter, or \\ at the line's end, begins another line"),
        ("arrow up", "what was typed before"),
        ("Ctrl-C", "stop what runs; drop what is typed; at an empty prompt: leave"),
        ("Ctrl-D", "leave"),
    ]
    screen.said("\n".join(f"  {key:<16} {about}" for key, about in lines))
    return True


def _cost(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    used = chat.stored.usage
    cached = f" ({used.cache_read_tokens:,} of them cached)" if used.cache_read_tokens else ""
    about = f"{used.requests:,} requests, {used.input_tokens:,} tokens in{cached}, {used.output_tokens:,} out"
    price = "the price of this model is not known" if used.cost is None else f"about ${used.cost:.4f}"
    screen.said(f"  {about}; {price}")
    return True


def _model(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if rest:
        try:
            chat.use_model(rest)
        except Exception as error:  # noqa: BLE001 - a model that cannot be had is told, and the chat goes on
            screen.problem(explained(error, rest).message, f"The model is still {chat.stored.model}.")
            return True
    screen.said(f"  {chat.stored.model}")
    return True


def _new(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    if chat.kept:
        screen.note(chat.how_to_go_on().replace("Go on with", "This one is kept"))
    chat.begin_anew()
    screen.said(f"  chat {chat.stored.id}")
    return True


def _quit(chat: Chat, screen: ChatScreen, rest: str) -> bool:
    return False


COMMANDS: Mapping[str, ChatCommand] = {
    "/help": ChatCommand(_help, "", "this list"),
    "/model": ChatCommand(_model, "[MODEL]", "the model, or another one from now on"),
    "/cost": ChatCommand(_cost, "", "requests and tokens of this chat, and the price where it is known"),
    "/new": ChatCommand(_new, "", "begin another chat; this one is kept"),
    "/quit": ChatCommand(_quit, "", "leave; the chat is kept"),
}
"""What may be typed, by name."""
