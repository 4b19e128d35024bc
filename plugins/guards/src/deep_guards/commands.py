"""The deny list of commands: an example of `deep_check_call`.

A list of words is no sandbox. It reads a command as a person would at a glance; a shell has a hundred ways to say the
same: variables, quotes, encodings, scripts, other programs. What must not happen needs a backend that confines.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from deep_core import ToolCall

__all__ = ["find_denied", "words_of"]

ARGUMENTS = ("command", "cmd", "script")
"""Arguments that hold a command, also of tools without the tag `execute`."""
WRAPPERS = frozenset(
    "busybox command doas env exec ionice nice nohup setsid stdbuf sudo time timeout xargs".split()  # noqa: SIM905
)
"""Programs that run the command after them."""
SHELLS = frozenset(("ash", "bash", "dash", "eval", "ksh", "sh", "zsh"))
"""Programs that run a text."""
DEPTH = 5


def find_denied(call: ToolCall, denied: Sequence[str]) -> str | None:
    """Return the entry of a deny list that a call matches; None if it matches none.

    Args:
        call: the call.
        denied: programs with the words that must follow, in any order: `git push`, `rm -r`.
    """
    texts = _texts(call)
    wanted = [(entry, words[0]) for entry in denied if (words := words_of(entry))]
    for text in texts:
        for words in words_of(text):
            for entry, needed in wanted:
                if _matches(words, needed):
                    return entry
    return None


def words_of(text: str, depth: int = 0) -> list[list[str]]:
    """Split a text into commands, each into words, as far as a reader without a shell can."""
    lexer = shlex.shlex(re.sub(r"[\n`]", " ; ", text), posix=True, punctuation_chars=";|&()<>")
    lexer.commenters = ""
    found: list[list[str]] = [[]]
    try:
        for token in lexer:
            if token and set(token) <= set(";|&()"):
                found.append([])
            else:
                found[-1].append(token)
    except ValueError:  # a quote is open: what came before it counts
        found[-1] += text.split()[-1:]
    return [words for command in found for words in _unwrapped(command, depth)]


def _unwrapped(words: list[str], depth: int) -> Iterator[list[str]]:
    """Yield a command without assignments and wrappers, and the commands in a text for a shell."""
    words = [word.strip("`$") for word in words]
    while words and (_is_assignment(words[0]) or os.path.basename(words[0]) in WRAPPERS or not words[0]):
        words = words[1:]
        while words and (words[0].startswith("-") or words[0].replace(".", "").rstrip("smh").isdigit()):
            words = words[1:]
    if not words:
        return
    yield [os.path.basename(words[0]), *words[1:]]
    if os.path.basename(words[0]) in SHELLS and depth < DEPTH:
        for word in words[1:]:
            if not word.startswith("-"):
                yield from words_of(word, depth + 1)


def _is_assignment(word: str) -> bool:
    name, equals, _ = word.partition("=")
    return bool(equals) and name.isidentifier()


def _matches(words: list[str], needed: list[str]) -> bool:
    return words[0] == needed[0] and all(_has(words[1:], word) for word in needed[1:])


def _has(words: list[str], needed: str) -> bool:
    if needed.startswith("-") and not needed.startswith("--"):
        letters = {letter for word in words if word[:1] == "-" and word[:2] != "--" for letter in word[1:]}
        return letters >= set(needed[1:])  # `-rf` is `-r -f`
    return needed in words


def _texts(call: ToolCall) -> list[str]:
    every = "execute" in call.tags
    found: list[str] = []
    for name, value in call.args.items():
        if every or name in ARGUMENTS:
            found += _strings(value)
    return found


def _strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list | tuple) and value and all(isinstance(item, str) for item in value):  # pyright: ignore[reportUnknownVariableType]
        return [shlex.join(value)]  # pyright: ignore[reportUnknownArgumentType]
    return []
