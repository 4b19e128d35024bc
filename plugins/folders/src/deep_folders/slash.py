"""The commands of folders, for chats."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from .folder import CommandEntry

if TYPE_CHECKING:
    from deep_sessions import ChatCommand

    from .around_calls import HookPrograms
    from .folder import Folder

__all__ = ["commands_of", "fill_in"]

NAME_CHARS = 80
_ARGUMENT = re.compile(r"\$ARGUMENTS\[(\d+)\]|\$ARGUMENTS|\$(\d)(?!\d)")
_RUN = re.compile(r"!`([^`\n]+)`")


def commands_of(
    folders: Sequence[Folder], *, skills: bool = False, programs: HookPrograms | None = None
) -> Iterator[ChatCommand]:
    """Yield every command of folders, as `folder:command`. Of two with one name, the first counts.

    Args:
        folders: with commands, or skills.
        skills: whether each skill is a command too.
        programs: the hooks, of which some may be about commands.
    """
    from deep_sessions import ChatCommand

    if programs is not None and not programs.around_runs("UserPromptExpansion"):
        programs = None
    taken: set[str] = set()
    for folder in folders:
        used = [_use_of(skill.name) for skill in folder.skills] if skills else []
        for entry in (*folder.commands, *used):
            name = re.sub(r"[^a-z0-9_.:-]+", "-", f"{folder.name}:{entry.name}".casefold())[:NAME_CHARS]
            if name not in taken:
                taken.add(name)
                fill = partial(fill_in, entry.text)
                render = fill if programs is None else partial(_hear, programs, name, fill)
                yield ChatCommand(name, entry.description, render, entry.usage, f"folder {folder.name}")


def _use_of(skill: str) -> CommandEntry:
    return CommandEntry(skill, f"Use the skill {skill}", "[REQUEST]", f"Load the skill {skill}, and follow it.")


async def _hear(programs: HookPrograms, name: str, fill: Callable[[str], str], arguments: str) -> str:
    """Ask the hooks before a command is sent as a message. Raises ValueError: one blocks it."""
    from .around_runs import expanded

    return await expanded(programs, name, arguments, fill(arguments))


def fill_in(text: str, arguments: str = "") -> str:
    """Return a command's text with what a person typed behind its name.

    Args:
        text: with placeholders.
        arguments: `$ARGUMENTS`. `$1` is its first word, quoted words being one, and `$ARGUMENTS[0]` too. If the text
            uses none of them, they follow at its end.
    """
    try:
        words = shlex.split(arguments)
    except ValueError:  # an apostrophe is not always a quote
        words = arguments.split()

    def fill(match: re.Match[str]) -> str:
        if match[1] is None and match[2] is None:
            return arguments
        number = int(match[1]) if match[1] is not None else int(match[2]) - 1
        return words[number] if 0 <= number < len(words) else ""

    # First, so that nothing a person typed is taken for a part of the command.
    text = _RUN.sub(r"(first run `\1`, and use what it prints)", text)
    filled, count = _ARGUMENT.subn(fill, text)
    return filled if count or not arguments else f"{filled}\n\nARGUMENTS: {arguments}"
