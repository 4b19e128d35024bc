"""Bound and clean what a server says: the model reads it, and a stranger wrote it."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, cast

__all__ = [
    "DESCRIPTION_CHARS",
    "NAME_CHARS",
    "SCHEMA_CHARS",
    "clean_name",
    "clean_schema",
    "clean_text",
    "clean_value",
    "hashed_name",
]

NAME_CHARS = 64
"""What every provider takes as the name of a tool."""
DESCRIPTION_CHARS = 1_024
SCHEMA_CHARS = 16_000
"""Of the JSON of one tool's parameters. A tool with more is left out."""
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"}
_TEXTS = ("description", "title", "$comment")


def clean_text(text: str, limit: int = DESCRIPTION_CHARS) -> str:
    """Remove characters that a person cannot see, such as tags and direction marks, and truncate."""
    seen = "".join(c for c in text if c in "\n\t" or not (c in "\u200c\u200d" or _is_hidden(c))).strip()
    return seen if len(seen) <= limit else seen[: limit - 1].rstrip() + "…"


def clean_value(value: Any) -> Any:
    """Remove characters that a person cannot see from all texts of a value: tags, direction marks, selectors."""
    if isinstance(value, str):
        return "".join(c for c in value if not _is_hidden(c))
    if isinstance(value, list):
        return [clean_value(item) for item in cast("list[Any]", value)]
    if isinstance(value, Mapping):
        return {clean_value(key): clean_value(item) for key, item in cast("Mapping[str, Any]", value).items()}
    return value


def _is_hidden(c: str) -> bool:
    # The two joiners are parts of words and of pictures that a person sees.
    return c not in "\n\t\u200c\u200d" and (unicodedata.category(c) in _HIDDEN or "\U000e0100" <= c <= "\U000e01ef")


def clean_name(name: str) -> str:
    """Return a name of letters, digits, `_` and `-` that every provider takes; "" if nothing is left.

    A long name ends in a digest, so that two long names stay two.
    """
    clean = re.sub(r"[^A-Za-z0-9_-]+", "_", name)
    if not clean.strip("_-"):
        return ""
    return hashed_name(clean, name) if len(clean) > NAME_CHARS else clean


def hashed_name(clean: str, original: str) -> str:
    """Return a name with a digest of what it stands for, so that two names stay two."""
    return f"{clean[: NAME_CHARS - 9]}_{sha256(original.encode('utf-8', 'replace')).hexdigest()[:8]}"


def clean_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Clean the texts of a JSON schema, and the names and values that calls use: a call sends what a person sees.

    Raises:
        ValueError: it is not the schema of an object, is too large or nested too deeply, or two names become one.
    """
    try:
        size = len(json.dumps(schema, separators=(",", ":")))
        cleaned = cast("dict[str, Any]", _clean(schema, values=False))
    except RecursionError:
        raise ValueError("its parameters are nested too deeply") from None
    if size > SCHEMA_CHARS:
        raise ValueError(f"its parameters are {size:,} characters of JSON schema, more than {SCHEMA_CHARS:,}")
    if cleaned.get("type", "object") != "object":
        raise ValueError("its parameters are not an object")
    return {**cleaned, "type": "object"}


def _clean(value: Any, *, values: bool) -> Any:
    """`values`: whether the keys of this mapping are names of the server's, not keywords of JSON schema."""
    if isinstance(value, Mapping):
        out: dict[str, Any] = {}
        for key, item in cast("Mapping[str, Any]", value).items():
            if not values and key in _TEXTS and isinstance(item, str):
                out[key] = clean_text(item)
            elif not values and key in ("enum", "const", "default", "examples", "required", "$ref"):
                out[key] = clean_value(item)
            else:
                named = not values and key in ("properties", "patternProperties", "$defs", "definitions")
                out[clean_value(key)] = _clean(item, values=named)
        if len(out) < len(cast("Mapping[str, Any]", value)):
            raise ValueError("two of its names differ in characters that a person cannot see")
        return out
    if isinstance(value, list):
        return [_clean(item, values=False) for item in cast("list[Any]", value)]
    return value
