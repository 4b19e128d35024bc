"""A program: code on stdin, what each file defines and uses on stdout. `parsing.py` runs it, limited.

Parsers are native code, and anyone may have written the files: one that crashes or blocks a parser ends this process.
It imports nothing of this package, because it runs isolated, by its path.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from importlib import import_module
from typing import Any

__all__ = ["main"]

SIGNATURE = 120
"""Characters of a signature."""
MOST_DEFINED, MOST_USED, MOST_NAME = 2_000, 5_000, 100
"""Definitions and used names to keep of a file; characters of a name."""
MOST_MEMORY, MOST_SECONDS = 2 * 1024**3, 120
"""Limits of this process, should the parent die before it ends it."""

_WORD = re.compile(rb"[A-Z]?[a-z]{2,30}|[A-Z]{3,30}")  # as in names: `readFile` has two
_GAP = re.compile(r"([(\[])\s*\n\s*|,?\s*\n\s*([)\]])")  # of code with an argument a line
_NAME = re.compile(rb"[A-Za-z_\x80-\xff][A-Za-z0-9_\x80-\xff]{2,99}")


class Reader:
    """Reads the files of one language."""

    def __init__(self, module: str, function: str, query: str, unread: list[str]) -> None:
        import tree_sitter

        pointer: object = getattr(import_module(module), function)()
        grammar = tree_sitter.Language(pointer)
        self._parser = tree_sitter.Parser(grammar)
        self._query = tree_sitter.Query(grammar, query)
        self._unread = tree_sitter.Query(grammar, "".join(f"({kind}) @text\n" for kind in unread))
        self._cursor = tree_sitter.QueryCursor

    def read(self, source: bytes) -> dict[str, Any]:
        """Return `{"defined": [[name, line, depth, signature], …], "used": {name: times}, "words": [word, …]}`."""
        root = self._parser.parse(source).root_node
        words = {word.lower() for word in _WORD.findall(source)}
        return {
            "defined": self._defined(source, root),
            "used": self._used(source, root),
            "words": [word.decode() for word in sorted(words)[:MOST_USED]],
        }

    def _defined(self, source: bytes, root: Any) -> list[tuple[str, int, int, str]]:
        matches = [captured for _, captured in self._cursor(self._query).matches(root)]
        spans = [(each.get("local") or each["defined"])[0] for each in matches]
        found = sorted(
            (span.start_byte, -span.end_byte, number)  # what encloses comes first
            for number, span in enumerate(spans)
        )
        shown: dict[int, tuple[str, int, int, str]] = {}
        around: list[tuple[int, bool]] = []
        depth = local = 0
        for start, minus_end, number in found:
            while around and around[-1][0] <= start:
                is_local = around.pop()[1]
                depth, local = depth - (not is_local), local - is_local
            name = matches[number].get("name", [None])[0]
            if name is not None and not local and name.start_byte not in shown:
                text = source[name.start_byte : name.end_byte].decode("utf-8", "replace").rpartition("::")[2]
                if len(text) <= MOST_NAME and len(shown) < MOST_DEFINED:
                    line = name.end_point[0] + 1
                    shown[name.start_byte] = text, line, depth, _signature(source, name, spans[number])
            around.append((-minus_end, name is None))
            depth, local = depth + (name is not None), local + (name is None)
        return [*shown.values()]

    def _used(self, source: bytes, root: Any) -> dict[str, int]:
        pieces: list[bytes] = []
        at = 0
        texts = self._cursor(self._unread).captures(root).get("text", [])
        for start, end in sorted((node.start_byte, node.end_byte) for node in texts):
            if start >= at:
                pieces.append(source[at:start])
                at = end
        pieces.append(source[at:])
        counted = Counter(_NAME.findall(b" ".join(pieces)))
        most = sorted(counted.items(), key=lambda each: (-each[1], each[0]))[:MOST_USED]
        return {name.decode("utf-8", "replace"): times for name, times in most}


def _signature(source: bytes, name: Any, defined: Any) -> str:
    """Return the code from the beginning of the name's line to the body, on one line."""
    start = source.rfind(b"\n", 0, name.end_byte) + 1
    body = defined.child_by_field_name("body")
    if body is not None and body.start_byte > name.end_byte:
        end = body.start_byte
    elif defined.type == "function_declarator":
        end = defined.end_byte
    else:
        end = source.find(b"\n", name.end_byte)
        end = len(source) if end < 0 else end
    # The name is in what is shown, also on a line of a megabyte.
    start = max(start, name.start_byte - SIGNATURE // 2)
    code = source[start : min(end, start + 4 * SIGNATURE)].decode("utf-8", "replace")
    text = " ".join(_GAP.sub(r"\1\2", code).split()).removesuffix("{").rstrip()
    return text if len(text) <= SIGNATURE else f"{text[: SIGNATURE - 1]}…"


def main() -> None:
    """Read what to import and the languages; then answer each file with a line of JSON, null without a grammar."""
    _limit()
    source, answers = sys.stdin.buffer, sys.stdout.buffer
    about = json.loads(source.readline())
    sys.path[:] = about["path"]
    readers: dict[str, Reader | None] = {}
    while line := source.readline():
        head = json.loads(line)
        name = head["language"]
        data = source.read(head["size"])
        if name not in readers:
            try:
                readers[name] = Reader(*about["languages"][name])
            except (ImportError, ValueError, OSError):  # no wheel for this machine, or a grammar of another time
                readers[name] = None
        reader = readers[name]
        answers.write(json.dumps(reader.read(data) if reader else None).encode() + b"\n")
        answers.flush()


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    for which, most in (
        (resource.RLIMIT_AS, MOST_MEMORY),
        (resource.RLIMIT_CPU, MOST_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        try:
            resource.setrlimit(which, (most, most))
        except (OSError, ValueError):
            continue  # a lower limit is set, or the system knows none


if __name__ == "__main__":
    main()
