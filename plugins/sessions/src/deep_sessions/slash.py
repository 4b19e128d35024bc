"""Commands that plugins add to chats: messages that a person sends by name."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deep_core import PluginKernel

__all__ = ["ChatCommand", "chat_commands"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_.:-]{0,79}")


@dataclass(frozen=True)
class ChatCommand:
    """A command of a chat: for `/name words`, it sends what `render("words")` returns, as the person's message.

    Attributes:
        name: without the slash: lower-case letters, digits, `-`, `_`, `.` and `:`, at most 80 characters.
        about: what it does, in a line. It may come from a stranger's file.
        render: takes the text behind the name, and returns the message. May be async, do I/O, and raise ValueError with
            a message for the person.
        usage: its arguments, such as `CITY [DAYS]`.
        source: where it comes from, for people.

    Raises:
        ValueError: the name is none.
    """

    name: str
    about: str
    render: Callable[[str], str | Awaitable[str]]
    usage: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"{self.name!r} cannot be the name of a chat command: write it like folder:review-code")


def chat_commands(kernel: PluginKernel) -> Mapping[str, ChatCommand]:
    """Return the commands that a kernel's plugins add now, by name, sorted.

    Raises:
        PluginError: two plugins add one name, or a plugin that must work fails.
    """
    found = kernel.caller.collect(
        "deep_chat_commands",
        lambda plugin: {"context": kernel.context(plugin)},
        among=kernel.active,
        drop=kernel.leave_out,
    )
    kernel.check_unique("chat command", [(item.value.name, item.plugin) for item in found])
    return {item.value.name: item.value for item in sorted(found, key=lambda item: item.value.name)}
