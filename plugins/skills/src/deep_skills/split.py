"""Find the beginning and end of a SKILL.md's frontmatter, in bytes while reading and in text.

Two rules. Lenient: a line `---`, the fields, a line `---`; a byte order mark and blank lines may come first.
Strict, like the reference validator: the text begins with `---`, and the next `---` anywhere ends the
fields.
"""

from __future__ import annotations

import re
from typing import Literal

from .problem import BadSkill

__all__ = ["Outcome", "head_in", "split_either", "split_lenient", "split_strict"]

_START = re.compile(rb"\A(?:\xef\xbb\xbf)?(?:[ \t]*\r?\n)*---[ \t]*\r?\n")
_END = re.compile(rb"^---[ \t]*\r?\n", re.M)
_END_AT_EOF = re.compile(rb"^---[ \t]*\r?(?:\n|\Z)", re.M)
_TEXT_START = re.compile(r"\A\ufeff?(?:[ \t]*\r?\n)*---[ \t]*\r?\n")
_TEXT_END = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.M)

Outcome = Literal["whole", "more", "none"]


def head_in(data: bytes, *, strict: bool, eof: bool) -> tuple[Outcome, int]:
    """Check whether `data`, the beginning of a file, has the whole frontmatter.

    Returns:
        `whole` and where the frontmatter ends; `more` (read on); or `none` (there is no frontmatter).
    """
    start = None if strict else _START.match(data)
    if strict or (start is None and data.startswith(b"---") and not _begins(data)):
        if not data.startswith(b"---"):
            return ("more" if not eof and b"---".startswith(data) else "none"), 0
        end = data.find(b"---", 3)
        return ("whole", end + 3) if end >= 0 else ("none" if eof else "more", 0)
    if start is None:
        return ("more" if not eof and _begins(data) else "none"), 0
    end_match = (_END_AT_EOF if eof else _END).search(data, start.end())
    return ("whole", end_match.end()) if end_match else ("none" if eof else "more", 0)


def _begins(data: bytes) -> bool:
    """Whether this can still become the start of a frontmatter."""
    rest = data.removeprefix(b"\xef\xbb\xbf").strip(b" \t\r\n")
    return rest in (b"", b"-", b"--", b"---", b"\xef", b"\xef\xbb")


def split_lenient(text: str) -> tuple[str, int, str]:
    """Split into the fields' text, the number of its first line, and the body.

    Raises:
        BadSkill: no frontmatter, or an unclosed one.
    """
    start = _TEXT_START.match(text)
    if start is None:
        raise BadSkill(1, "no frontmatter: begin the file with a line ---, then name and description, then ---")
    first = text.count("\n", 0, start.end()) + 1
    end = _TEXT_END.search(text, start.end())
    if end is None:
        raise BadSkill(first - 1, "the frontmatter is not closed: end it with a line ---")
    return text[start.end() : end.start()], first, text[end.end() :]


def split_strict(text: str) -> tuple[str, int, str]:
    """Split by the reference validator's rule.

    Raises:
        BadSkill: the text does not begin with `---`, or there is no second one.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not text.startswith("---"):
        raise BadSkill(1, "the file must begin with --- (no byte order mark, no blank line)")
    parts = text.split("---", 2)
    if len(parts) < 3:
        raise BadSkill(1, "the frontmatter is not closed: end it with a line ---")
    return parts[1], 1, parts[2]


def split_either(text: str) -> tuple[str, int, str]:
    """`split_lenient`, or `split_strict` if only that works: lenient mode accepts all that strict mode does.

    Raises:
        BadSkill: neither works; has the lenient rule's reason.
    """
    try:
        return split_lenient(text)
    except BadSkill as error:
        try:
            return split_strict(text)
        except BadSkill:
            raise error from None
