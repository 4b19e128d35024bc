"""The commands of folders, for chats."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deep_sessions import ChatCommand

    from .folder import Folder

__all__ = ["commands_of", "fill_in"]

NAME_CHARS = 80
_ARGUMENT = re.compile(r"\$ARGUMENTS\[(\d+)\]|\$ARGUMENTS|\$(\d)(?!\d)")
_RUN = re.compile(r"!`([^`\n]+)`")


def commands_of(folders: Sequence[Folder]) -> Iterator[ChatCommand]:
    """Yield every command of folders, as `folder:command`. Of two with one name, the first counts."""
    from deep_sessions import ChatCommand

    taken: set[str] = set()
    for folder in folders:
        for entry in folder.commands:
            name = re.sub(r"[^a-z0-9_.:-]+", "-", f"{folder.name}:{entry.name}".casefold())[:NAME_CHARS]
            if name not in taken:
                taken.add(name)
                source = f"folder {folder.name}"
                yield ChatCommand(name, entry.description, partial(fill_in, entry.text), entry.usage, source)


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
