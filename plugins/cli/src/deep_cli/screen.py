"""What is shown, and where.

What others wrote made safe: no control characters that a terminal obeys, no secrets, nothing on stdout. Streams that
take it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator, Mapping
from typing import Any, TextIO, cast

__all__ = [
    "MASK",
    "answers_alone",
    "is_text",
    "looks_secret",
    "one_line",
    "open_streams",
    "plain",
    "redact",
    "redacted",
]

MASK = "***"

# C0 but tab and newline, DEL, C1; line and paragraph separators; bidirectional controls, which reorder what is read;
# surrogates, as which Python reads bytes that are not UTF-8: no file and no provider takes them.
_CONTROL = "[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
# Compiled when there is something to hide, which `re` remembers: most commands show none of it.
_TELLTALE = (
    # `token` has no plural here: `max_tokens` is a number that people want to see.
    r"(?:^|[_\-.])(?:(?:api_?)?keys?|token|secrets?|passw(?:or)?ds?|passphrase|credentials?|auth|authorization|cookie"
    r"|dsn)(?:$|[_\-.])"
)
_USERINFO = r"(?P<scheme>[a-z][a-z0-9+.\-]*://)[^/\s@]*:[^/\s@]*@"
SHORTEST = 6
"""Characters: a shorter value of a secret variable is not looked for in texts, or every `x` would be masked."""


def plain(text: str) -> str:
    """The text with every control character made visible (`\\x1b`), so that it cannot move or hide what is shown."""
    return text if text.isprintable() else re.sub(_CONTROL, _visible, text)


def is_text(text: str) -> bool:
    """Whether all of it can be sent and stored; bytes that were not UTF-8 when they were read cannot."""
    return text.isprintable() or re.search("[\ud800-\udfff]", text) is None


def _visible(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def one_line(text: str, width: int = 100) -> str:
    """The text on one line of at most `width` characters, control characters made visible."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= width else line[: width - 1] + "…"


@contextlib.contextmanager
def answers_alone() -> Generator[TextIO]:
    """What plugins print while it is open goes to stderr: stdout, which is given, has what the command says alone.

    A program that reads the JSON would stop at a plugin's greeting.
    """
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield stdout


def open_streams() -> None:
    """Make the standard streams fit for what is written and typed, whoever started this process."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started it
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    # A terminal of another encoding shows `?`, it does not end the command; nor does what is typed in another one.
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "replace"), (sys.stdin, "surrogateescape")):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=errors)
    from .waiting import interruptible_stdin

    sys.stdin = interruptible_stdin()


def looks_secret(name: str) -> bool:
    """Whether a variable or an option of this name holds a secret: `OPENAI_API_KEY`, `db.password`, `token`."""
    return re.search(_TELLTALE, name, re.IGNORECASE) is not None


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """The text without the values of this process's secret variables, and without passwords in addresses.

    Args:
        text: anything that is about to be shown.
        environ: whose values are secret; None means `os.environ`.
    """
    if not text:
        return text
    for name, value in (os.environ if environ is None else environ).items():
        if len(value) >= SHORTEST and looks_secret(name):
            text = text.replace(value, MASK)
    return re.sub(_USERINFO, rf"\g<scheme>{MASK}@", text, flags=re.IGNORECASE)


def redacted(value: Any) -> Any:
    """`redact` for every text in a JSON value: in its JSON form a secret with a quote in it would look different."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redacted(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [redacted(item) for item in cast("list[Any]", value)]
    return value
