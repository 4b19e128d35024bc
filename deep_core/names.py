"""Names: what a plugin may be called, any text as a folder, and shown."""

from __future__ import annotations

import re

NAME = re.compile(r"^[a-z][a-z0-9_]{0,39}$")
"""The name of a plugin, a section or a slot."""

_PLAIN = re.compile(r"(?!(?:con|prn|aux|nul|com\d|lpt\d)$)[a-z0-9][a-z0-9_-]{0,63}")
"""A text that is its own folder name. Lower case only, as a file system may ignore case; no device of Windows."""
# C0 except tab and newline, DEL, C1; line and paragraph separators; surrogates, which Python reads for bytes that are
# not UTF-8. Then Unicode's default ignorable characters, which a terminal or a page shows as nothing: bidirectional
# controls, joiners, fillers, tags, variation selectors. And U+2800, a blank. Emoji need the joiner and the selector:
# after any other character they are hidden text. A text, which `re` compiles on first use: most commands hide nothing.
_EMOJI = "\u00a9\u00ae\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
_HIDDEN = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b"
    "\u200c\u200e\u200f\u202a-\u202e\u2060-\u206f\u2800\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3"
    f"\U0001d173-\U0001d17a\U000e0000-\U000e0fff]|(?<![{_EMOJI}])\ufe0f|(?<![{_EMOJI}])(?<![{_EMOJI}]\ufe0f)\u200d"
)


def check_name(kind: str, name: str) -> None:
    """Raise a ValueError for a name that no plugin, section or slot can have."""
    if not NAME.fullmatch(name):
        raise ValueError(f"{kind} name {name!r} must be lower-case letters, digits and _ (at most 40), a letter first")


def visible(text: str) -> str:
    """Write control and invisible characters as codes (`\\x1b`, `\\u200b`), so that none moves or hides text."""
    shown = text.isascii() and text.isprintable()
    return text if shown else re.sub(_HIDDEN, lambda match: ascii(match[0])[1:-1].replace(r"\r", r"\x0d"), text)


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
