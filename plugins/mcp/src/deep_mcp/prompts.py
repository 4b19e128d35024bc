"""Prompts of servers as commands of a chat: `/server:prompt words`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .connection import Connection, ServerFailed
from .listing import ListedPrompt

if TYPE_CHECKING:
    from deep_sessions import ChatCommand

    from .hub import Hub

__all__ = ["commands_of", "read_arguments"]


def commands_of(hubs: Sequence[Hub]) -> list[ChatCommand]:
    """Return a command for each prompt that a server has listed. Two prompts with one name: the first one."""
    from deep_sessions import ChatCommand

    commands: dict[str, ChatCommand] = {}
    for hub, connection, prompt in _listed(hubs):
        name = _command_name(f"{connection.config.name}:{prompt.name}")
        if name not in commands:
            commands[name] = ChatCommand(
                name,
                prompt.description or "A prompt of the server, without a description.",
                partial(_render, hub, connection, prompt),
                usage=" ".join(f"{arg.upper()}" if needed else f"[{arg.upper()}]" for arg, needed in prompt.arguments),
                source=f"MCP server {connection.config.name}",
            )
    return list(commands.values())


def _listed(hubs: Sequence[Hub]) -> Iterator[tuple[Hub, Connection, ListedPrompt]]:
    for hub in hubs:
        hub.remember()
        for connection in hub.connections.values():
            for prompt in connection.listing.prompts if connection.listing else ():
                yield hub, connection, prompt


def _command_name(text: str) -> str:
    return re.sub(r"[^a-z0-9_.:-]", "-", text.lower())[:80]


async def _render(hub: Hub, connection: Connection, prompt: ListedPrompt, words: str) -> str:
    arguments = read_arguments(prompt.arguments, words)
    try:
        return await hub.worker.run(connection.prompt(prompt, arguments))
    except ServerFailed as error:
        raise ValueError(str(error)) from error


def read_arguments(expected: Sequence[tuple[str, bool]], words: str) -> dict[str, str]:
    """Give the words of a person to a prompt's arguments, in their order; the last one takes what is left.

    Args:
        expected: name of each argument, and whether the prompt needs it.
        words: quoted words are one.

    Raises:
        ValueError: a word is missing, or is one too many.
    """
    try:
        found = shlex.split(words)
    except ValueError:  # an apostrophe is not always a quote
        found = words.split()
    names = [name for name, _ in expected]
    if len(found) > len(names):
        if not names:
            raise ValueError("this prompt takes no arguments")
        found = [words.strip()] if len(names) == 1 else [*found[: len(names) - 1], " ".join(found[len(names) - 1 :])]
    given = dict(zip(names, found, strict=False))
    if missing := [name for name, needed in expected if needed and name not in given]:
        raise ValueError(f"{', '.join(missing)} is missing: type {' '.join(name.upper() for name in names)}")
    return given
