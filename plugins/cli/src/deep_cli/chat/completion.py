"""Complete what is typed in a chat: commands after `/`, files after `@`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from prompt_toolkit.completion import Completer, Completion

from ..run.changes import SKIPPED
from ..terminal.screen import label, one_line

if TYPE_CHECKING:
    from prompt_toolkit.document import Document

__all__ = ["ChatCompleter"]

_FILE = re.compile(r'(?:^|\s)@(?:("[^"\n]*)|(\S*))$')
MOST = 200
"""Files that are offered."""


class ChatCompleter(Completer):
    """Completes with Tab.

    Args:
        commands: returns the commands, each with what it does.
        folder: the folder of the chat.
    """

    def __init__(self, commands: Callable[[], Iterable[tuple[str, str]]], folder: str) -> None:
        self._commands = commands
        self._folder = folder

    def get_completions(self, document: Document, complete_event: Any) -> Iterator[Completion]:
        """Yield what could be typed."""
        text = document.text_before_cursor
        if text.startswith("/") and " " not in text:
            for name, about in self._commands():
                if name.startswith(text):
                    yield Completion(name, -len(text), display=label(name), display_meta=one_line(about, 60))
        elif (found := _FILE.search(text)) is not None:
            typed = found[1] or found[2]
            for path in _paths(self._folder, typed.removeprefix('"')):
                quoted = f'"{path}' + ("" if path.endswith("/") else '"')  # a folder is typed on
                text = quoted if found[1] or re.search(r"\s", path) else path
                yield Completion(text, -len(typed), display=label(path))


def _paths(folder: str, typed: str) -> list[str]:
    """Return the files and folders that begin with what was typed, below the folder."""
    above, _, name = typed.rpartition("/")
    place = os.path.realpath(os.path.join(folder, above))
    if place != folder and not place.startswith(folder.rstrip("/") + "/"):
        return []
    try:
        with os.scandir(place) as entries:
            found = [entry for entry in entries if entry.name.startswith(name) and entry.name not in SKIPPED]
    except OSError:
        return []
    # A name with a control character or a quote could not be told from the words around it.
    names = [f"{entry.name}/" if entry.is_dir() else entry.name for entry in found if entry.name.isprintable()]
    return [f"{above}/{name}" if above else name for name in sorted(names) if '"' not in name][:MOST]
