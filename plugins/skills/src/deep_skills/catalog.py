"""Format skills for the model: the catalog in the conversation, and the answer of `list_skills`. Both are bounded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deep_core import SkillMeta

from .library import SkillChoice, View
from .problem import Problem, one_line
from .ranking import rank_skills

__all__ = ["catalog_text", "list_text", "matching"]

SHORTEST = 60
"""Minimum characters of a description that still say when to use the skill."""
LONGEST = 400
"""Maximum characters of a description in a list; `load_skill` shows the rest."""
NAME_CHARS = 64
TAG_CHARS = 60
MOST_MATCHES = 15
"""Maximum skills that a query shows at once: a list of weak matches helps less than better words."""
PROBLEM_SHARE = 3
"""At most one third of an answer of `list_skills` is about problems."""


def catalog_text(skills: Sequence[SkillMeta], limit: int) -> str | None:
    """Format the catalog in at most `limit` characters; None without skills."""
    if not skills:
        return None
    head = "Skills. Before a task that one of them is for, load it:"
    lines = [(_line(meta), meta) for meta in skills]
    return _fit(head, lines, limit, len(lines), lambda shown: "find them with list_skills(query)")


def _line(meta: SkillMeta, about: str = "") -> str:
    return f"- {one_line(meta.name, NAME_CHARS)}{about}: "


def _fit(head: str, skills: Sequence[tuple[str, SkillMeta]], limit: int, total: int, how: Callable[[int], str]) -> str:
    """Put one line per skill after the head: with descriptions as long as all fit, else as many skills as fit.

    Args:
        head: the first line.
        skills: the beginning of each line, and its skill.
        limit: maximum characters.
        total: the number of skills from here on, of which `skills` may be the first.
        how: says how to get the others, from the number of those that are shown.
    """
    room = limit - len(head)
    texts = [one_line(meta.description, LONGEST) for _, meta in skills]
    starts = [start for start, _ in skills]

    def size(most: int) -> int:
        return sum(len(start) + 1 + min(len(text), most) for start, text in zip(starts, texts, strict=True))

    if total > len(texts) or size(SHORTEST) > room:
        room -= len(how(total)) + len(f"\n{total} more: ")
    if size(SHORTEST) <= room:
        most = LONGEST if size(LONGEST) <= room else _longest(size, room)
        shown = len(texts)
    else:
        most, shown, left = SHORTEST, 0, room
        while left > 0 and shown < len(texts):
            left -= len(starts[shown]) + 1 + min(len(texts[shown]), SHORTEST)
            shown += left >= 0
    text = _join(head, starts[:shown], texts[:shown], most)
    return text if shown == total else f"{text}\n{total - shown} more: {how(shown)}"


def _longest(size: Callable[[int], int], room: int) -> int:
    low, high = SHORTEST, LONGEST
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if size(middle) <= room else (low, middle)
    return low


def _join(head: str, starts: Sequence[str], texts: Sequence[str], most: int) -> str:
    return "\n".join([head, *(start + one_line(text, most) for start, text in zip(starts, texts, strict=True))])


def matching(view: View, query: str) -> list[SkillChoice]:
    """Find the skills that have a word of the query, the best first. An empty query matches all, in catalog order."""
    if not query.strip():
        return list(view.skills.values())
    ranked = rank_skills([choice.meta for choice in view.skills.values()], query)
    return [view.skills[meta.name] for meta in ranked]


def list_text(view: View, query: str, limit: int, offset: int = 0) -> str:
    """Format a page of the answer of `list_skills`, in at most `limit` characters.

    Args:
        view: the skills.
        query: words to find; for all skills, the answer includes the problems.
        limit: maximum characters.
        offset: skills to skip.
    """
    matches = matching(view, query)
    problems = _problem_lines(view.problems, limit // PROBLEM_SHARE) if not query.strip() and not offset else []
    below = "\n".join(["", *problems]) if problems else ""
    if not matches:
        if not view.skills:
            return f"No skills.{below}"
        return f"No skill matches {one_line(query, 80)!r} ({len(view.skills)} skills).{below}"
    if offset >= len(matches):
        return f"There are only {len(matches)}: offset={offset} is beyond the last."
    head = f"{len(matches)} skill{'s' * (len(matches) != 1)}{', the best first' if query.strip() else ''}:"
    page = matches[offset:][: MOST_MATCHES if query.strip() else None]
    lines = [(_line(choice.meta, _about(choice)), choice.meta) for choice in page]
    left = len(matches) - offset
    return _fit(head, lines, limit - len(below), left, lambda shown: f"offset={offset + shown}") + below


def _about(choice: SkillChoice) -> str:
    tags = one_line(choice.meta.metadata.get("tags", ""), TAG_CHARS)
    source = one_line(choice.meta.source, 20) + (f"; {tags}" if tags else "")
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
    return ["Problems:", *lines, *([f"- and {left} more: deep skills check"] if left else [])]
