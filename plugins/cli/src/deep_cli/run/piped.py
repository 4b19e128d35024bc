"""What is piped to a command's stdin."""

from __future__ import annotations

import os
import stat
from io import UnsupportedOperation
from typing import TextIO

from ..failure import USAGE, Failure
from ..terminal.screen import is_text

__all__ = ["piped"]


def piped(stream: TextIO) -> str:
    """Return the text of a pipe or a file that the user gave as stdin; "" for a terminal or any other stream.

    A program that starts `deep` may leave its own stdin open, such as a socket: it is not read.

    Raises:
        Failure: the text is not UTF-8.
    """
    try:
        mode = os.fstat(stream.fileno()).st_mode
    except (OSError, ValueError, UnsupportedOperation):
        return ""
    if not (stat.S_ISFIFO(mode) or stat.S_ISREG(mode)):
        return ""
    text = stream.read()
    if not is_text(text):
        raise Failure("stdin is not UTF-8 text: convert it with iconv -t UTF-8", USAGE)
    return text
