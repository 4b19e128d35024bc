"""Read the YAML frontmatter of agents and commands, as tolerantly as the programs that such files are written for."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

__all__ = ["split_frontmatter", "text_of", "words_of"]

_FRONTMATTER = re.compile(r"\A---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.S | re.M)
_KEY = re.compile(r"([A-Za-z][\w-]*):(?:[ \t]+|$)(.*)")


def split_frontmatter(text: str) -> tuple[Mapping[str, Any], str]:
    """Return the fields and the text below them. Values that are not YAML are text up to the next key."""
    match = _FRONTMATTER.match(text.replace("\r\n", "\n"))
    if match is None:
        return {}, text.strip()
    from yaml import YAMLError, safe_load

    head, body = match[1], text.replace("\r\n", "\n")[match.end() :].strip()
    try:
        fields: object = safe_load(head)
    except (YAMLError, ValueError, RecursionError):
        # `description: Use it when… user: "…"` is no YAML, and many files have it.
        fields = _fields_by_line(head)
    return (cast("dict[str, Any]", fields) if isinstance(fields, dict) else {}), body


def _fields_by_line(head: str) -> dict[str, str]:
    fields: dict[str, str] = {}
    key = ""
    for line in head.splitlines():
        if match := _KEY.match(line):
            key = match[1]
            fields[key] = match[2].strip().strip("\"'")
        elif key:
            fields[key] += f" {line.strip()}"
    return fields


def text_of(value: object) -> str:
    """Return a field as one line."""
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def words_of(value: object) -> list[str]:
    """Return a field that is a list, or text with commas outside of brackets."""
    if isinstance(value, str):
        return [word.strip() for word in re.findall(r"(?:[^,()]|\([^()]*\))+", value) if word.strip()]
    return [str(item).strip() for item in cast("list[object]", value)] if isinstance(value, list) else []
