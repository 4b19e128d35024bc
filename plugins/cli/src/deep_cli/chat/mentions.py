"""`@file` in a message of a chat: what it attaches."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlparse

from ..run.attach import Attachment, Message, NotAttached, read_attachment

__all__ = ["OUTPUT_NAME", "Mentions", "dropped_paths", "fold_files", "mention", "text_of"]

OUTPUT_NAME = "!"
"""`@!` attaches the output of the last `!` command."""
# Not in the middle of a word: `me@example.org` names no file.
_MENTION = re.compile(r'(?<![^\s(\[{"\'])@(?:"([^"\n]+)"|(\S+))')
_TAIL = ".,:;!?)]}\"'"
_BLOCK = re.compile(r'\n\n<(file_*) name="([^"\n]*)">\n(.*?)\n</\1>', re.DOTALL)


@dataclass(frozen=True)
class Found:
    """What the mentions of a message attach.

    Attributes:
        attachments: in the order of their first mention.
        problems: of names that are files, and are not attached: the name, and why.
    """

    attachments: Sequence[Attachment]
    problems: Sequence[tuple[str, str]]


class Mentions:
    """Reads the files that messages mention.

    Args:
        folder: the folder of the chat, without symlinks.
        most: maximum characters of the text files of one message.
        output: returns the last command of the user, and its output; None before there is one.
    """

    def __init__(self, folder: str, most: int, output: Callable[[], tuple[str, str] | None]) -> None:
        self._folder = folder
        self._most = most
        self._output = output
        self.dropped: set[str] = set()
        """Files outside the folder that the user dropped on the terminal, whole paths."""

    def find(self, text: str) -> Found:
        """Read what a message mentions. A word after `@` that is no file, such as a decorator, is only a word."""
        attachments: list[Attachment] = []
        problems: list[tuple[str, str]] = []
        left, seen = self._most, set[str]()
        for name, path in self._named(text):
            if name in seen:
                continue
            seen.add(name)
            try:
                attachment = self._read(name, path)
            except NotAttached as error:
                problems.append((name, str(error)))
                continue
            if len(attachment.text or "") > left:
                problems.append((name, f"more than {self._most:,} characters in all: the agent can read it in pages"))
                continue
            left -= len(attachment.text or "")
            attachments.append(attachment)
        return Found(attachments, problems)

    def _named(self, text: str) -> Iterator[tuple[str, Path | None]]:
        """Yield the names of files in a message, with their paths; None for the output."""
        for found in _MENTION.finditer(text):
            names = [found[1]] if found[1] else [found[2], found[2].rstrip(_TAIL)]
            if found[2] and found[2].rstrip(".,:;?)]}\"'") == OUTPUT_NAME and self._output() is not None:
                yield OUTPUT_NAME, None
                continue
            for name in names:
                path = Path(self._folder, os.path.expanduser(name))
                with suppress(OSError, ValueError):  # a name that no file can have
                    if path.is_file():
                        yield name, path
                        break

    def _read(self, name: str, path: Path | None) -> Attachment:
        if path is None:
            command, output = self._output() or ("", "")
            return Attachment(f"output of: {command}", output)
        real = os.path.realpath(path)
        # What is pasted may mention any file: one elsewhere goes only if the user named it alone.
        if not real.startswith(self._folder.rstrip("/") + "/") and real not in self.dropped:
            raise NotAttached("it is outside this folder: drop or paste its path alone, or start with --file")
        return read_attachment(path, name)


def mention(path: str, folder: str) -> str:
    """Return how a message mentions a file: relative to the folder, in quotes if it needs them."""
    inside = folder.rstrip("/") + "/"
    name = path.removeprefix(inside)
    return f'@"{name}"' if re.search(r"\s", name) or name.rstrip(_TAIL) != name else f"@{name}"


def dropped_paths(text: str) -> list[str]:
    """Return the files that a pasted text names, if it is nothing else: terminals paste the names of dropped files.

    They are written as a shell takes them, as `file:` addresses, or as they are.
    """
    text = text.strip()
    if not text or len(text) > 20_000:
        return []
    ways: list[list[str]] = [[text], text.splitlines()]
    with suppress(ValueError):
        ways.append(shlex.split(text))
    for way in ways:
        paths = [_as_path(name) for name in way]
        with suppress(OSError, ValueError):
            if paths and all(path.startswith("/") and os.path.isfile(path) for path in paths):
                return [os.path.realpath(path) for path in paths]
    return []


def _as_path(name: str) -> str:
    address = urlparse(name) if name.startswith("file://") else None
    return os.path.expanduser(name) if address is None else unquote(address.path)


def fold_files(text: str) -> str:
    """Return a message for the screen: instead of each attached file, a line that names it."""

    def name_of(found: re.Match[str]) -> str:
        lines = len(found[3].splitlines())
        return f"\n  attached {found[2]} ({lines:,} {'line' if lines == 1 else 'lines'})"

    return _BLOCK.sub(name_of, text)


def text_of(message: Message) -> str:
    """Return the words of a message, without its pictures."""
    return message if isinstance(message, str) else "\n\n".join(part for part in message if isinstance(part, str))
