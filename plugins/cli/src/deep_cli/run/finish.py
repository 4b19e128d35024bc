"""End a command that ran the agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from ..failure import Failure, show_traceback
from ..flags import verbose
from ..terminal.output import say_json

if TYPE_CHECKING:
    from .report import Report

__all__ = ["finish"]


def finish(ctx: click.Context, report: Report, *, as_json: bool) -> None:
    """End the process with the report's exit code and error.

    Args:
        ctx: the command's context; has `--verbose`.
        report: the result of the task or the call.
        as_json: print the whole report on stdout.
    """
    if as_json:
        say_json(report.to_json())
    if report.error is not None:
        if report.exception is not None and verbose(ctx):
            show_traceback(report.exception)
        raise Failure(report.error, report.exit_code)
    ctx.exit(report.exit_code)
