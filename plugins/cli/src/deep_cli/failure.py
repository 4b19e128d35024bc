"""How a command fails: one line and an exit code."""

from __future__ import annotations

from typing import IO, Any

import click

from .terminal.output import say
from .terminal.screen import redact

__all__ = ["FAILED", "INTERRUPTED", "REFUSED", "USAGE", "Failure", "show_traceback"]

FAILED = 1
"""The task, a check or a plugin failed."""
USAGE = 2
"""The command line or the configuration is wrong."""
REFUSED = 3
"""An approval was denied or unanswered."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the number of SIGINT, as shells have it."""


class Failure(click.ClickException):
    """End a command with `deep: <message>` on stderr.

    Args:
        message: what is wrong, where, and what to type.
        exit_code: 1 failed, 2 usage or configuration, 3 an approval was denied.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # pyright: ignore[reportAttributeAccessIssue]  # click reads it from the instance

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line, with control characters made visible: the message may quote anything."""
        say(f"deep: {self.message}", file=file, err=True)


def show_traceback(error: BaseException) -> None:
    """Print the traceback of an error, for `--verbose`; redact the environment's secrets."""
    import traceback

    say(redact("".join(traceback.format_exception(error))), err=True, end="")
