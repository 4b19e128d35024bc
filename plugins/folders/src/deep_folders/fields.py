"""Values of a frontmatter, as agents and commands use them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import cast

__all__ = ["named", "text_of", "words_of"]


def named(fields: Mapping[str, object], *names: str) -> Iterator[object]:
    """Yield the values of a field in any spelling: `disallowedTools`, `disallowed-tools`, `DISALLOWED_TOOLS`."""
    for key, value in fields.items():
        if plain(key) in names:
            yield value


def plain(key: str) -> str:
    """Return a name without case, `-` and `_`."""
    return re.sub(r"[-_\s]", "", key).casefold()


def text_of(value: object) -> str:
    """Return a field as one line."""
    return " ".join(str(value).split()) if isinstance(value, str | int | float) else ""


def words_of(value: object) -> list[str] | None:
    """Return a field that is a list of texts, or text with commas outside of brackets; None if it is neither."""
    if isinstance(value, str):
        return [word.strip() for word in re.findall(r"(?:[^,()]|\([^()]*\))+", value) if word.strip()]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in cast("list[object]", value)):
        return None
    return [item.strip() for item in cast("list[str]", value) if item.strip()]
