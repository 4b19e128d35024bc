"""Format skills for the model: the catalog in the conversation, and the answer of `list_skills`. Both are bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deep_core import SkillMeta

from .library import SkillChoice, View
from .problem import Problem, one_line

__all__ = ["catalog_text", "list_text", "matching"]

SHORTEST = 60
"""Minimum characters of a description that still say when to use the skill."""
LONGEST = 400
"""Maximum characters of a description in a list; `load_skill` shows the rest."""
NAME_CHARS = 64
PROBLEM_SHARE = 3
"""At most one third of an answer of `list_skills` is about problems."""


def catalog_text(skills: Sequence[SkillMeta], limit: int) -> str | None:
    """Format the catalog in at most `limit` characters; None without skills."""
    if not skills:
        return None
    head = "Skills. Before a task that one of them is for, load it:"
    return _fit(head, [(_line(meta), meta) for meta in skills], limit, "{} more: find them with list_skills(query)")


def _line(meta: SkillMeta, about: str = "") -> str:
    return f"- {one_line(meta.name, NAME_CHARS)}{about}: "


def _fit(head: str, skills: Sequence[tuple[str, SkillMeta]], limit: int, more: str) -> str:
    """Put one line per skill after the head: with descriptions as long as all fit, else as many skills as fit."""
    room = limit - len(head)
    texts = [one_line(meta.description, LONGEST) for _, meta in skills]
    starts = [start for start, _ in skills]

    def size(most: int) -> int:
        return sum(len(start) + 1 + min(len(text), most) for start, text in zip(starts, texts, strict=True))

    if size(LONGEST) <= room:
        return _join(head, starts, texts, LONGEST)
    if size(SHORTEST) <= room:
        return _join(head, starts, texts, _longest(size, room))
    room -= len(more) + 8
    count = 0
    while room > 0 and count < len(texts):
        room -= len(starts[count]) + 1 + min(len(texts[count]), SHORTEST)
        count += room >= 0
    tail = more.format(len(texts) - count)
    return _join(head, starts[:count], texts[:count], SHORTEST) + f"\n{tail}"


def _longest(size: Callable[[int], int], room: int) -> int:
    low, high = SHORTEST, LONGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= room else (low, middle)
    return low


def _join(head: str, starts: Sequence[str], texts: Sequence[str], most: int) -> str:
    return "\n".join([head, *(start + one_line(text, most) for start, text in zip(starts, texts, strict=True))])


def matching(view: View, query: str) -> list[SkillChoice]:
    """Find the skills with every word of the query in name or description, else those with any.

    A word in the name counts more. An empty query matches all, in the catalog's order.
    """
    words = query.casefold().split()
    if not words:
        return list(view.skills.values())
    matches: list[tuple[int, int, str, SkillChoice]] = []
    for choice in view.skills.values():
        name, text = choice.meta.name.casefold(), choice.meta.description.casefold()
        hits = sum(word in name or word in text for word in words)
        if hits:
            matches.append((-hits, -sum(word in name for word in words), name, choice))
    matches.sort(key=lambda entry: entry[:3])
    full = [entry for entry in matches if entry[0] == -len(words)]
    return [entry[3] for entry in full or matches]


def list_text(view: View, query: str, limit: int) -> str:
    """Format the answer of `list_skills` in at most `limit` characters. A list of all skills includes the problems."""
    matches = matching(view, query)
    problems = _problem_lines(view.problems, limit // PROBLEM_SHARE) if not query.strip() else []
    below = "\n".join(["", *problems]) if problems else ""
    if not matches:
        if not view.skills:
            return f"No skills.{below}"
        return f"No skill matches {one_line(query, 80)!r} ({len(view.skills)} skills).{below}"
    head = f"{len(matches)} skill{'s' * (len(matches) != 1)}:"
    lines = [(_line(choice.meta, _about(choice)), choice.meta) for choice in matches]
    return _fit(head, lines, limit - len(below), "{} more: give (other) words as query") + below


def _about(choice: SkillChoice) -> str:
    source = one_line(choice.meta.source, 20)
    if not choice.shadows:
        return f" ({source})"
    others = ", ".join(f"{one_line(meta.source, 20)} {one_line(meta.path, 160)}" for meta in choice.shadows[:2])
    return f" ({source}, replaces {others})"


def _problem_lines(problems: Sequence[Problem], limit: int) -> list[str]:
    if not problems:
        return []
    lines: list[str] = []
    room = limit - 60
    ordered = sorted(problems, key=lambda problem: not problem.fatal)
    for problem in ordered:
        line = f"- {one_line(str(problem), 240)}{' (skipped)' if problem.fatal else ''}"
        if len(line) + 1 > room:
            break
        lines.append(line)
        room -= len(line) + 1
    left = len(ordered) - len(lines)
    return ["Problems:", *lines, *([f"- and {left} more, in the log"] if left else [])]
