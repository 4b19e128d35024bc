"""Make users' file names safe to store, to print, to type in a shell and to send to a model."""

from __future__ import annotations

import hashlib
import re
import unicodedata

__all__ = ["NAME_BYTES", "add_number", "safe_name", "suffix_of"]

NAME_BYTES = 160
"""Maximum bytes of a name in UTF-8. File systems allow 255; names are in the prompt, so stay well below."""
HASH_DIGITS = 8
FALLBACK = "upload"
"""The name of a file whose own name has no usable character."""

_SEPARATORS = re.compile(r"[/\\]")
# Characters that Windows rejects in names (< > : " | ? *) and that a shell interprets; both quotes, so that a
# name that is quoted carelessly in a command stays one argument.
_REPLACED = frozenset("<>:\"|?*`$;&!'\\/")
# Cc, Cf: control characters, bidirectional overrides, invisible ones. Cs, Co, Cn: no characters at all. Zl, Zp: lines.
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_RESERVED = re.compile(r"(?:con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])", re.IGNORECASE)
# A longer suffix, or one that is not ASCII, is part of the name.
_SUFFIX = re.compile(r"(?:\.tar)?\.[a-z0-9_+-]{1,15}\Z", re.IGNORECASE | re.ASCII)


def safe_name(name: str) -> str:
    """Return the name under which an upload is stored.

    The last component of a path; Unicode NFC; no separator, control, invisible or unassigned character, nothing that
    normalizes to a separator or a dot, no character that Windows rejects or a shell interprets;
    no leading dot or hyphen, no trailing dot or blank; no device name of Windows; at most `NAME_BYTES` bytes, a longer
    name being truncated before its suffix and made unique by a hash. `safe_name(safe_name(x)) == safe_name(x)`.

    Raises:
        TypeError: the name is not text.
    """
    if not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # users' input is not checked yet
        raise TypeError(f"an upload's name is text, not {type(name).__name__}")
    last = next((part for part in reversed(_SEPARATORS.split(name)) if part.strip(". ")), "")
    # Twice: after replacing and dropping characters, others may compose.
    clean = unicodedata.normalize("NFC", "".join(map(_character, unicodedata.normalize("NFC", last))))
    clean = _trim(" ".join(clean.split())) or FALLBACK
    if _RESERVED.fullmatch(clean.split(".", 1)[0].rstrip(" ")):
        clean = f"_{clean}"
    if len(clean.encode()) > NAME_BYTES:
        clean = _add_mark(clean, f"-{hashlib.sha256(clean.encode()).hexdigest()[:HASH_DIGITS]}")
    return clean


def _trim(name: str) -> str:
    name = name.lstrip(". ").rstrip(". ")
    return f"_{name[1:]}" if name.startswith(("-", "~")) else name


def _character(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Zs" or char in "\t\n\r\v\f":
        return " "
    if category in _DROPPED:
        return ""
    if char in _REPLACED:
        return "_"
    # Full-width and other look-alikes, which a later normalization turns into the real character.
    normalized = unicodedata.normalize("NFKC", char)
    return "_" if normalized != char and not _REPLACED.isdisjoint(normalized.replace(".", "/")) else char


def suffix_of(name: str) -> str:
    """The suffix with its dot, in lower case (`.csv`, `.tar.gz`); empty for none."""
    return _split(name)[1].lower()


def add_number(name: str, number: int) -> str:
    """Return the name to try at this attempt: `report.csv`, then `report-2.csv`, `report-3.csv`, …."""
    return name if number == 1 else _add_mark(name, f"-{number}")


def _split(name: str) -> tuple[str, str]:
    match = _SUFFIX.search(name)
    return (name[: match.start()], match.group()) if match and match.start() else (name, "")


def _add_mark(name: str, mark: str) -> str:
    stem, suffix = _split(name)
    return _cut(stem, NAME_BYTES - len(mark) - len(suffix)) + mark + suffix


def _cut(text: str, most: int) -> str:
    """Truncate to at most `most` bytes, between characters and not before a combining one."""
    if len(text.encode()) <= most:
        return text
    cut = text.encode()[:most].decode(errors="ignore")
    while cut and unicodedata.combining(text[len(cut)]):
        cut = cut[:-1]
    return cut.rstrip(". ")
