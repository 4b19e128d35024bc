"""The slash commands of folders."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .folder import Folder

__all__ = ["SlashCommand", "commands_of"]

_ARGUMENT = re.compile(r"\$ARGUMENTS\[(\d+)\]|\$ARGUMENTS|\$(\d)(?!\d)")
_RUN = re.compile(r"!`([^`\n]+)`")


@dataclass(frozen=True)
class SlashCommand:
    """A command that a person types: its text, with what they typed filled in, is their message.

    Attributes:
        name: `folder:command`, without the slash.
        description: what it does.
        usage: its arguments, for people; may be "".
        source: where it comes from, for people.
        text: with placeholders.
    """

    name: str
    description: str
    usage: str
    source: str
    text: str

    def render(self, arguments: str = "") -> str:
        """Return the message.

        Args:
            arguments: what stands behind the command's name: `$ARGUMENTS`. `$1` is its first word, quoted words being
                one, and `$ARGUMENTS[0]` too. If the text uses none of them, they follow at its end.
        """
        try:
            words = shlex.split(arguments)
        except ValueError:  # an apostrophe is not always a quote
            words = arguments.split()
        used = False

        def fill(match: re.Match[str]) -> str:
            nonlocal used
            used = True
            if match[1] is None and match[2] is None:
                return arguments
            number = int(match[1]) if match[1] is not None else int(match[2]) - 1
            return words[number] if 0 <= number < len(words) else ""

        # First, so that nothing a person typed is taken for a part of the command.
        text = _RUN.sub(r"(first run `\1`, and use what it prints)", self.text)
        text = _ARGUMENT.sub(fill, text)
        return text if used or not arguments else f"{text}\n\nARGUMENTS: {arguments}"


def commands_of(folders: tuple[Folder, ...]) -> Iterator[SlashCommand]:
    """Yield the commands of folders."""
    for folder in folders:
        for entry in folder.commands:
            name = f"{folder.name}:{entry.name}"
            yield SlashCommand(name, entry.description, entry.usage, f"folder {folder.name}", entry.text)
