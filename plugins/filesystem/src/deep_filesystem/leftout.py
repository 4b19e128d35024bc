"""Say in one line what a search left out: what vanishes in silence, a model takes for absent."""

from __future__ import annotations

from collections.abc import Callable

from .walk import LeftOut

__all__ = ["left_out"]

NAMED = 3
"""Paths to name of a kind."""


def left_out(left: LeftOut, done: str, shown: Callable[[str], str]) -> str:
    """Return the line, or "".

    Args:
        left: what was left out.
        done: what was not done with it: "listed" or "searched".
        shown: shows an absolute path.
    """
    parts: list[str] = []
    if ignored := " and ".join([*_count(left.folders, "folder"), *_count(left.files, "file")]):
        parts.append(f"{ignored} that git ignores. To include: ignored=true")
    others = [
        *_named(left.unreadable, "unreadable", shown),
        *_named(left.unnamed, "with a name that is not UTF-8", shown),
        *_count(left.linked, "linked folder"),
        *_count(left.links, "link"),
    ]
    if left.binary:
        more = " or more" if left.more_binary else ""
        others.append(f"{left.binary:,}{more} binary file{'s' * (left.binary > 1 or left.more_binary)}")
    if left.large:
        others.append(f"{left.large:,} too large file{'s' * (left.large > 1)}")
    if others:
        parts.insert(0, "; ".join(others))
    return f"[Not {done}: {'; '.join(parts)}]" if parts else ""


def _count(paths: list[str], what: str) -> list[str]:
    return [f"{len(paths):,} {what}{'s' * (len(paths) > 1)}"] if paths else []


def _named(paths: list[str], what: str, shown: Callable[[str], str]) -> list[str]:
    if not paths:
        return []
    first = ", ".join(shown(path) for path in sorted(paths)[:NAMED])
    return [f"{len(paths):,} {what} ({first}{', ...' if len(paths) > NAMED else ''})"]
