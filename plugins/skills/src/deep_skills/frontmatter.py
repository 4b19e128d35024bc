"""The one reader of frontmatter, of skills and of files of folders: bounded, and tolerant of what is no YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from .fields import NOT_YAML, Value, parse_fields, parse_leniently
from .problem import BadSkill
from .reading import HEAD_LIMIT
from .split import split_either

__all__ = ["read_frontmatter"]

_KEY = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+|$)(.*)")


def read_frontmatter(text: str) -> tuple[Mapping[str, Value], str]:
    """Return the fields of a Markdown file, every scalar as the author's text, and the text below them.

    Without frontmatter, all of it is text. Where the frontmatter is not YAML, as `description: Use it when… user: "…"`
    is not, each field is read by itself: one that is not YAML is text up to the next key.

    Raises:
        BadSkill: the frontmatter is no mapping, or beyond the limits: 65,536 bytes, 2,000 values with those that
            aliases repeat, 20 levels.
    """
    try:
        head, first, body = split_either(text)
    except BadSkill:
        return {}, text.strip()
    if len(head.encode("utf-8", "surrogatepass")) > HEAD_LIMIT:
        raise BadSkill(first, f"the frontmatter has more than {HEAD_LIMIT:,} bytes")
    if not head.strip():
        return {}, body.strip()
    try:
        values = parse_leniently(head, first)[0].values
    except BadSkill as error:
        if not error.reason.startswith(NOT_YAML):
            raise
        values = dict(_each_by_itself(head, first))
        if not values:
            raise
    return values, body.strip()


def _each_by_itself(head: str, first: int) -> Iterator[tuple[str, Value]]:
    lines = head.splitlines()
    starts = [(number, match) for number, line in enumerate(lines) if (match := _KEY.match(line))]
    ends = [*(number for number, _ in starts[1:]), len(lines)]
    for (start, match), end in zip(starts, ends, strict=True):
        try:
            fields = parse_fields("\n".join(lines[start:end]), first + start).values
        except BadSkill as error:
            if not error.reason.startswith(NOT_YAML):
                raise
            words = [match[2], *lines[start + 1 : end]]
            yield match[1], " ".join(word.strip() for word in words).strip().strip("\"'")
        else:
            yield from fields.items()
