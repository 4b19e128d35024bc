"""Find the text of a file nearest to a text that is not in it, for the error message."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from difflib import SequenceMatcher

from .lookalikes import described, first_difference, skeleton

__all__ = ["describe_nearest"]

MAX_LINES = 20_000
"""Maximum lines of the file to compare, from its start."""
MAX_CANDIDATES = 40
"""Maximum places to compare character by character: SequenceMatcher is quadratic."""
MAX_CHARS = 2_000
"""Maximum characters of either side to compare in one place."""
MAX_COMPOSED = 1_000_000
"""Maximum characters of the file to compare with accents and letters composed."""
MAX_PAIRS = 400_000
"""Maximum pairs of equal characters in a place to compare: each is a step of SequenceMatcher, or several."""
MAX_MARKS = 30
"""Maximum combining marks in a row to compare composed, as in Unicode's stream-safe text: sorting them is quadratic."""
SHOWN_LINES, SHOWN_CHARS = 6, 200
_NUMBERED = re.compile(r"^[^\S\n]*\d+\t", re.M)


def describe_nearest(text: str, wanted: str, check: Callable[[], None]) -> str:
    """Explain why `wanted` is not in `text` and what comes nearest, in one or more sentences; "" for nothing.

    The constants of this module bound its cost. `check` is called all the time; what it raises ends the search.
    """
    hints: list[str] = []
    stripped = _NUMBERED.sub("", wanted)
    if stripped != wanted and stripped and stripped in text:
        return "It includes the line numbers of read_file: remove the number and the tab."
    if same := _looks_the_same(text[:MAX_COMPOSED], wanted) or _in_another_form(text[:MAX_COMPOSED], wanted):
        return same
    lines = text.split("\n", MAX_LINES)[:MAX_LINES]
    target = wanted.strip("\n").split("\n")
    squeezed = _squeeze("\n".join(target))
    starts = _starts(lines, target, check)
    for start in starts:
        check()
        if _squeeze("\n".join(lines[start : start + len(target)])) == squeezed:
            hints.append(f"Line {start + 1} differs in white space only (tabs, spaces, line ends).")
            return " ".join(hints) + _quote(lines, start, len(target))
    best, where = 0.0, -1
    probe = "\n".join(target)[:MAX_CHARS]
    letters = Counter(probe)
    for start in starts:
        check()
        window = "\n".join(lines[start : start + len(target)])[:MAX_CHARS]
        if sum(count * letters[char] for char, count in Counter(window).items()) > MAX_PAIRS:
            continue
        matcher = SequenceMatcher(None, window, probe, autojunk=False)
        if matcher.real_quick_ratio() <= best or matcher.quick_ratio() <= best:
            continue
        ratio = matcher.ratio()
        if ratio > best:
            best, where = ratio, start
    if where < 0 or best < 0.5:
        return ""
    return f"Nearest: line {where + 1}:" + _quote(lines, where, len(target))


def _looks_the_same(text: str, wanted: str) -> str:
    """Find text that differs in quotes, dashes, spaces, letters of another script or characters of no width only."""
    if text.isascii() and wanted.isascii():
        return ""
    plain, target = skeleton(text), skeleton(wanted)
    at = plain.find(target) if target else -1
    if at < 0:
        return ""
    number = plain.count("\n", 0, at)
    line = text.split("\n", number + target.count("\n") + 1)[number : number + target.count("\n") + 1]
    # The column in the file is after as many visible characters as in its skeleton.
    column, rest = at - (plain.rfind("\n", 0, at) + 1), "\n".join(line)
    start = next((index for index in range(len(rest) + 1) if len(skeleton(rest[:index])) >= column), 0)
    there, given = first_difference(rest[start:], wanted)
    return (
        f"Line {number + 1} looks the same but has {described(there)} where old_string has {described(given)}. "
        f"Copy the line: {line[0][:SHOWN_CHARS]!a}."
    )


def _in_another_form(text: str, wanted: str) -> str:
    """Find text that looks the same: an accented letter can be one character or two, as on macOS."""
    if text.isascii() or _has_many_marks(text) or _has_many_marks(wanted):
        return ""
    composed = unicodedata.normalize("NFC", text)
    at = composed.find(unicodedata.normalize("NFC", wanted))
    if at < 0:
        return ""
    number = composed.count("\n", 0, at)
    return (
        f"Line {number + 1} looks the same but has other characters for its accents: "
        f"{text.split(chr(10), number + 1)[number][:SHOWN_CHARS]!a}. "
        "Copy them, or choose a text without accents."
    )


def _has_many_marks(text: str) -> bool:
    run = 0
    for char in text:
        run = run + 1 if char > "\x7f" and unicodedata.combining(char) else 0
        if run > MAX_MARKS:
            return True
    return False


def _starts(lines: list[str], target: list[str], check: Callable[[], None]) -> list[int]:
    """Rank the lines where `target` could begin, by words its lines share with the file's."""
    words = [set(re.findall(r"\w+", line[:MAX_CHARS])) for line in target[:SHOWN_LINES]]
    scores: dict[int, float] = {}
    for number, line in enumerate(lines):
        if number % 256 == 0:
            check()
        if not line.strip():
            continue
        here = set(re.findall(r"\w+", line[:MAX_CHARS]))
        for offset, expected in enumerate(words):
            start = number - offset
            if start < 0:
                continue
            shared = len(expected & here)
            if shared:
                scores[start] = scores.get(start, 0.0) + shared / (len(expected) + len(here))
            elif line.strip() == target[offset].strip():
                scores[start] = scores.get(start, 0.0) + 0.5
    return sorted(scores, key=lambda start: (-scores[start], start))[:MAX_CANDIDATES]


def _squeeze(text: str) -> str:
    return " ".join(text.split())


def _quote(lines: list[str], start: int, count: int) -> str:
    shown = lines[start : start + min(count, SHOWN_LINES)]
    return "".join(f"\n{start + index + 1}\t{line[:SHOWN_CHARS]}" for index, line in enumerate(shown))
