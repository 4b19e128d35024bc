"""Names: what a plugin may be called, the one spelling of a distribution's name, and any text as a folder."""

from __future__ import annotations

import re

NAME = re.compile(r"^[a-z][a-z0-9_]{0,39}$")
"""The name of a plugin, a section or a slot."""

_PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)$)[a-z0-9][a-z0-9_-]{0,63}")
"""A text that is its own folder name. Lower case only, as a file system may ignore case; no device of Windows."""
_SEPARATORS = re.compile(r"[-_.]+")


def canonical(name: str) -> str:
    """Normalize a distribution's name (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def folder_name(text: str) -> str:
    """A name for a file, a folder or a container: safe on every file system, and different for different texts.

    Up to 64 characters of `a-z`, `0-9`, `_` and `-` are their own name. Any other text becomes what is readable of it,
    a dot, which no text that is its own name has, and 128 bits of its SHA-256.
    """
    import hashlib
    import unicodedata

    if _PLAIN.fullmatch(text):
        return text
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_only).strip("-")[:40]
    slug = slug if _PLAIN.fullmatch(slug) else "session"
    # surrogatepass: the text may be one that no UTF-8 can hold, and must not become another's.
    return f"{slug}.{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
