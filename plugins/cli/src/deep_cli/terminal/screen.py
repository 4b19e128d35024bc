"""Make foreign text safe to show, and set up the standard streams.

Shown text has no control characters for the terminal and no secrets; plugins' prints stay off stdout.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Generator, Mapping, Sequence
from typing import Any, TextIO, cast

from deep_core.plugin_api import visible

__all__ = [
    "MASK",
    "content_line",
    "is_text",
    "label",
    "looks_secret",
    "middle",
    "one_line",
    "open_streams",
    "place",
    "redact",
    "redact_args",
    "redact_json",
    "redirect_prints",
]

MASK = "***"

# Compiled on first use, which `re` caches: most commands hide nothing.
_TELLTALE = (
    # `token` has a plural only with the name of its service: `max_tokens` is a number worth showing. `PWD`, `PATH` and
    # `BYPASS` are no secrets.
    r"passw(?:or)?ds?(?:$|[_\-.])|[_\-.](?:pwd|pass|pat)(?:$|[_\-.])"
    r"|(?:^|[_\-.])(?:ssh|ftp|pg|db|sql|my|user|root|admin|smtp|mail|sudo|rsync)pass(?:$|[_\-.])"
    r"|(?:^|[_\-.])(?:keys?|passphrase|credentials?|auth|authorization|cookie|dsn|jwts?|bearer)(?:$|[_\-.])"
    r"|(?:api|access|private|secret|signing|encryption|master|license)_?keys?(?:$|[_\-.])"
    r"|(?:token|secrets?|webhooks?(?:_?ur[il])?)(?:$|[_\-.])"
    r"|(?:api|auth|access|refresh|bot|npm|pypi|github|gitlab|slack|bearer|deploy|personal|service|secret)_?tokens(?:$|[_\-.])"
)
# Without the scheme, which would be searched at every letter of a long word.
# Greedy: a password may have an @.
_USERINFO = r"://[^/\s\"'<>]+@"
# Not `KEY=…`, which our own advice says to type.
_ASSIGNMENT = r"(?<![\w.-])([A-Za-z_-][\w.-]*+)=(?!…(?!\w))(\"[^\"\n]*\"|'[^'\n]*'|[^\s\"'&;]+)"
TAB = 8
"""Columns from one stop of a tab to the next."""
SHORTEST = 6
"""Minimum characters: shorter values of secret variables are not masked, or every `x` would be."""


def is_text(text: str) -> bool:
    """Whether the text can be sent and stored, which bytes that are not UTF-8 cannot."""
    return text.isprintable() or re.search("[\ud800-\udfff]", text) is None


def label(text: str) -> str:
    """Make a name visible, line breaks and tabs too, so that it stays on its line."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def place(path: str | os.PathLike[str]) -> str:
    """Make a path visible, on its line; `~` stands for the home."""
    text, home = os.fspath(path), os.path.expanduser("~")
    return label(f"~{text.removeprefix(home)}" if text.startswith(f"{home}{os.sep}") else text)


def content_line(text: str) -> str:
    """Make a line of a file or an output visible; its tabs reach as far as in a terminal."""
    return visible(text).replace("\n", "\\n").expandtabs(TAB)


def middle(text: str, width: int, hint: str = "") -> str:
    """Truncate in the middle and say how much is hidden: what matters may be at the end.

    Args:
        text: on one line.
        width: characters to show, in two parts.
        hint: how to see the rest.
    """
    hidden = len(text) - width
    if hidden <= 0:
        return text
    head = width * 2 // 3
    return f"{text[:head]} … {hidden:,} characters hidden{hint} … {text[head + hidden :]}"


def one_line(text: str, width: int | None = 100) -> str:
    """Put the text on one line of at most `width` characters (None: of any length), control characters made visible."""
    line = visible(" ".join(text.split()))
    return line if width is None or len(line) <= width else line[: width - 1] + "…"


@contextlib.contextmanager
def redirect_prints() -> Generator[TextIO]:
    """Redirect plugins' prints to stderr, so that the yielded stdout has the command's output alone.

    A program that parses the JSON would fail at a plugin's greeting.
    """
    stdout = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        yield stdout


def open_streams() -> None:
    """Prepare the standard streams for any text, whatever started this process."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by the parent
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115
    # A terminal with another encoding shows `?` instead of ending the command; the same for input.
    for stream, errors in ((sys.stdout, "replace"), (sys.stderr, "replace"), (sys.stdin, "surrogateescape")):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=errors)
    from .waiting import interruptible_stdin

    sys.stdin = interruptible_stdin()


def looks_secret(name: str) -> bool:
    """Whether a variable or an option of this name holds a secret: `OPENAI_API_KEY`, `db.password`, `token`."""
    return re.search(_TELLTALE, name, re.IGNORECASE) is not None


def redact_args(args: Sequence[str]) -> list[str]:
    """Mask the secrets in the arguments of a program: what follows an option with such a name, too."""
    shown: list[str] = []
    for arg in args:
        follows = (
            bool(shown) and shown[-1].startswith("-") and "=" not in shown[-1] and looks_secret(shown[-1].strip("-"))
        )
        shown.append(MASK if follows and not arg.startswith("-") else redact(arg))
    return shown


def redact(text: str, environ: Mapping[str, str] | None = None) -> str:
    """Mask the values of secret variables, assignments to such names, and users and passwords in addresses.

    Args:
        text: any text to show.
        environ: has the secrets; None means `os.environ`.
    """
    if not text:
        return text
    variables = os.environ if environ is None else environ
    # Not `items()`: the status line is drawn in a thread of its own, and a variable may go while it reads them.
    for name in list(variables):
        value = variables.get(name, "")
        if len(value) >= SHORTEST and looks_secret(name):
            text = text.replace(value, MASK)
    if "=" in text:
        text = re.sub(_ASSIGNMENT, lambda found: f"{found[1]}={MASK}" if looks_secret(found[1]) else found[0], text)
    return re.sub(_USERINFO, f"://{MASK}@", text)


def redact_json(value: Any) -> Any:
    """`redact` every text in a JSON value; in JSON text, a secret with a quote would look different."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: redact_json(item) for key, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [redact_json(item) for item in cast("Sequence[Any]", value)]
    return value
