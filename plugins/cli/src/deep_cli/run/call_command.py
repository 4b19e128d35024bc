"""`deep call`: call one tool of the agent, without a model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import click

from ..flags import approve_option, backend_option, config_option, plugin_option, verbose_option
from ..terminal.output import say_text
from ..terminal.screen import redirect_prints
from .finish import finish

__all__ = ["call"]


@click.command()
@click.argument("tool")
@click.argument("pairs", metavar="[KEY=VALUE]...", nargs=-1)
@click.option(
    "--json",
    "whole",
    metavar="JSON",
    help="All arguments as one JSON object, sent unchanged; @FILE reads it from a file.",
)
@backend_option
@approve_option
@plugin_option
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of stdout. Default: the model's text.",
)
@config_option
@verbose_option
@click.pass_context
def call(
    ctx: click.Context,
    tool: str,
    pairs: tuple[str, ...],
    whole: str | None,
    backend: str | None,
    approve: Literal["ask", "allow", "deny"] | None,
    plugin_files: tuple[Path, ...],
    output: str,
    config: Path | None,
) -> None:
    """Call one TOOL of the agent as a model would, and print the result that the model would get.

    The agent, its policy and its approvals are those of `deep run`; it needs no model and no key. The tool's
    schema says what a VALUE is: a text, a number, true, or JSON for lists and objects. KEY=@FILE reads a file.

    Exit code: 0 done, 1 the tool failed, 2 usage or configuration, 3 the call was denied or unanswered.
    """
    if pairs and whole is not None:
        raise click.UsageError("KEY=VALUE and --json exclude each other: --json has all arguments.")
    from ..plugins.files import load_plugin_files
    from .call_tool import call_tool
    from .task_screen import CallScreen

    with redirect_prints(), CallScreen().open() as screen:
        plugins: Any = load_plugin_files(plugin_files)
        report = call_tool(
            tool,
            pairs,
            whole=whole,
            backend=backend,
            approve=approve,
            ask=screen.ask,
            plugins=plugins,
            config=config,
            reporter=screen,
        )
    if output == "text" and report.result:
        say_text(report.result, sys.stdout)
    finish(ctx, report, as_json=output == "json")
