"""How a command ends without success: one line and an exit code."""

from __future__ import annotations

from typing import IO, Any

import click

from .screen import plain, redact

__all__ = ["FAILED", "INTERRUPTED", "REFUSED", "USAGE", "Failure", "show_traceback"]

FAILED = 1
"""The task, a check or a plugin failed."""
USAGE = 2
"""The command line or the configuration is wrong."""
REFUSED = 3
"""An approval was refused, or could not be asked."""
INTERRUPTED = 130
"""Ctrl-C: 128 and the number of SIGINT, as shells have it."""


class Failure(click.ClickException):
    """Ends a command with `deep: <message>` on stderr.

    Args:
        message: what is wrong, where, and what to type.
        exit_code: 1 failed, 2 usage or configuration, 3 an approval was refused.
    """

    def __init__(self, message: str, exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code  # pyright: ignore[reportAttributeAccessIssue]  # read from the instance by click

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the line; what an error quotes may come from anywhere, so control characters are made visible."""
        click.echo(f"deep: {plain(self.message)}", file=file, err=True)


def show_traceback(error: BaseException) -> None:
    """Print where an error came from: what `--verbose` adds. No secret of the host's environment is in it."""
    import traceback

    click.echo(plain(redact("".join(traceback.format_exception(error)))), err=True, nl=False)
