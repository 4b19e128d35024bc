"""Name the character by which two texts differ that look the same."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["described", "first_difference", "skeleton"]

_LIKE = {
    "'": "\u2018\u2019\u201a\u201b\u2032\u00b4\u02bc\uff07`",
    '"': "\u201c\u201d\u201e\u201f\u2033\u00ab\u00bb\uff02",
    "-": "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe63\uff0d",
    " ": "\u00a0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000",
    **dict(zip("AaBCcEeHIiJjKMOoPpSsTXxYy", (
        "\u0410\u0391", "\u0430", "\u0412\u0392", "\u0421", "\u0441", "\u0415\u0395", "\u0435", "\u041d\u0397",
        "\u0406\u0399", "\u0456", "\u0408", "\u0458", "\u041a\u039a", "\u041c\u039c", "\u041e\u039f",
        "\u043e\u03bf", "\u0420\u03a1", "\u0440\u03c1", "\u0405", "\u0455", "\u0422\u03a4", "\u0425\u03a7",
        "\u0445", "\u03a5", "\u0443",
    ), strict=True)),
    ",": "\uff0c", ":": "\uff1a", ";": "\uff1b\u037e", "(": "\uff08", ")": "\uff09", "!": "\uff01", "?": "\uff1f",
}  # fmt: skip
"""ASCII characters, and those that look like them."""
_TABLE = {ord(char): plain for plain, chars in _LIKE.items() for char in chars}
_ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u200e\u200f"
_INVISIBLE = re.compile(f"[{_ZERO_WIDTH}]")


def skeleton(text: str) -> str:
    """Return what the text looks like: of all characters that look the same, one; without those of no width."""
    return _INVISIBLE.sub("", text).translate(_TABLE) if not text.isascii() else text


def first_difference(there: str, wanted: str) -> tuple[str, str]:
    """Return the characters, of the file and of the wanted text, by which two texts of one skeleton differ first.

    "" where the other text has one of no width.
    """
    for ours, theirs in zip(there, wanted, strict=False):
        if ours != theirs:
            if theirs in _ZERO_WIDTH or ours in _ZERO_WIDTH:
                return (ours if ours in _ZERO_WIDTH else "", theirs if theirs in _ZERO_WIDTH else "")
            return ours, theirs
    return there[len(wanted) : len(wanted) + 1], wanted[len(there) : len(there) + 1]


def described(char: str) -> str:
    """Name a character: `U+2019 RIGHT SINGLE QUOTATION MARK`."""
    if not char:
        return "nothing"
    shown = f"'{char}' " if char.isprintable() and char not in _ZERO_WIDTH else ""
    return f"{shown}(U+{ord(char):04X} {unicodedata.name(char, 'unnamed')})"
