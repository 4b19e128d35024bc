"""Write the map: as many of the entries, the most important first, as the tokens allow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from deep_core.plugin_api import visible

from .languages import LANGUAGES, language_of
from .ranking import Entry, Ranked
from .sources import Sources

__all__ = ["CHARS_PER_TOKEN", "render"]

CHARS_PER_TOKEN = 4
"""The estimate of all token budgets of the project."""
MOST_FOLDERS = 12
"""Folders to count in the head."""


def render(sources: Sources, ranked: Ranked, tokens: int) -> str:
    """Return the map, in at most `tokens` tokens.

    It has a head with what there is, the files that use a name of the focus, the most important definitions by file,
    and a line that counts what is not in it.
    """
    most = tokens * CHARS_PER_TOKEN
    head = [_head(sources), *_users(ranked, most // 3)]
    # The longest tail: with fewer entries left, it is shorter.
    room = most - sum(len(line) + 1 for line in head) - len(_tail(sources, ranked.entries))
    shown: dict[str, list[Entry]] = {}
    taken = 0
    for entry in ranked.entries:
        cost = len(_line(entry)) + 1 if entry.definition else 0
        cost += 0 if entry.path in shown else len(_shown(entry.path)) + 1
        if cost > room:
            break
        room -= cost
        taken += 1
        shown.setdefault(entry.path, []).append(entry)
    lines = head
    for path, entries in shown.items():
        lines.append(_shown(path))
        defined = [entry for entry in entries if entry.definition is not None]
        lines += [_line(entry) for entry in sorted(defined, key=lambda each: each.definition.line)]  # pyright: ignore[reportOptionalMemberAccess]
    tail = _tail(sources, ranked.entries[taken:], shown)
    return "\n".join([*lines, tail] if tail else lines)[:most]


def _shown(path: str) -> str:
    return visible(path).replace("\n", "\\x0a").replace("\t", "\\x09")


def _line(entry: Entry) -> str:
    each = entry.definition
    return f" {each.line}: {visible(each.signature)}" if each else ""


def _head(sources: Sources) -> str:
    kinds = Counter(LANGUAGES[found].shown for path in sources.files if (found := language_of(path)))
    others = len(sources.files) - kinds.total()
    counts = [f"{count:,} {kind}" for kind, count in sorted(kinds.items(), key=lambda each: (-each[1], each[0]))]
    counts += [f"{others:,} others"] * bool(others and counts)
    folders = Counter(path.partition("/")[0] for path in sources.files if "/" in path)
    most = sorted(folders.items(), key=lambda each: (-each[1], each[0]))[:MOST_FOLDERS]
    places = ", ".join(f"{_shown(folder)[:60]}/ {count:,}" for folder, count in most)
    total = f"{len(sources.files):,} file{'s' * (len(sources.files) != 1)}"
    said = f"{total}: {', '.join(counts)}" if counts else total
    return f"{said}. {places}" if places else said


def _users(ranked: Ranked, most: int) -> list[str]:
    """Return a line for each name of the focus that files use; together at most `most` characters."""
    lines: list[str] = []
    for name, paths in ranked.users.items():
        line = f"{_shown(name)} is used in"
        room = most // len(ranked.users) - len(line) - 12
        for number, path in enumerate(map(_shown, paths)):
            if len(path) + 2 > room:
                line += f" and {len(paths) - number:,} more" if number else f" {len(paths):,} files"
                break
            room -= len(path) + 2
            line += f"{',' * bool(number)} {path}"
        lines.append(line)
    return lines


def _tail(sources: Sources, left: Sequence[Entry], shown: dict[str, list[Entry]] | None = None) -> str:
    shown = shown or {}
    hidden = [
        f"{count:,} {what}{'s' * (count > 1)}"
        for count, what in (
            (len({entry.path for entry in left} - shown.keys()), "file"),
            (sum(entry.definition is not None for entry in left), "definition"),
        )
        if count
    ]
    parts = [f"Not shown: {' and '.join(hidden)}"] if hidden else []
    if sources.left:
        parts.append("Not parsed: " + ", ".join(f"{count:,} {why}" for why, count in sorted(sources.left.items())))
    if sources.more:
        parts.append("There are more files than were listed")
    return f"[{'. '.join(parts)}]" if parts else ""
