"""Show names of files and input of the model in messages: on one line, every character visible."""

from __future__ import annotations

import re

__all__ = ["escape", "quoted", "unescape"]

QUOTED = 200
"""Maximum characters of a path or a pattern in a message."""
# Invisible, though Unicode counts them as letters and marks: fillers, joiners and variation selectors.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8})|\\)")


def _is_hidden(char: str) -> bool:
    """Whether a character moves the cursor, reorders text, or cannot be seen."""
    return not char.isprintable() or _INVISIBLE.match(char) is not None


def escape(name: str) -> str:
    """Show hidden characters as `\\x1b`, and a backslash as two. `unescape` is the way back."""
    if name.isprintable() and "\\" not in name and not _INVISIBLE.search(name):
        return name
    return "".join(_escape(char) if char == "\\" or _is_hidden(char) else char for char in name)


def _escape(char: str) -> str:
    code = ord(char)
    if char == "\\":
        return "\\\\"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def unescape(text: str) -> str:
    """Replace what `escape` writes, and nothing else: an escaped `/` or `.` stays, as a rule on paths sees it."""
    return _ESCAPE.sub(_unescape, text)


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1] or match[2] or match[3] or "5c", 16)
    if code > 0x10FFFF or not code:
        return match[0]
    char = chr(code)
    return char if match[0] == "\\\\" or _is_hidden(char) else match[0]


def quoted(text: str) -> str:
    """Escape a path or a pattern for a message, and truncate it."""
    shown = escape(text[: QUOTED + 1])
    return shown if len(text) <= QUOTED else f"{shown[:QUOTED]}..."
