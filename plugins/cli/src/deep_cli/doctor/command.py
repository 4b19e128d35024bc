"""`deep doctor`: find problems and show the commands that fix them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..failure import FAILED
from ..flags import config_option, json_option, verbose_option
from ..terminal.output import say, say_json

if TYPE_CHECKING:
    from .checks import Check

__all__ = ["doctor"]


@click.command()
@json_option
@config_option
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    default=20.0,
    show_default=True,
    help="Time limit in seconds for the check of one plugin.",
)
@verbose_option
@click.pass_context
def doctor(ctx: click.Context, as_json: bool, config: Path | None, timeout: float) -> None:
    """Check Python, the packages, the configuration, every plugin, the backend and the model.

    Plugins load in child processes with a time limit, so doctor also finds one that hangs or ends the process. It sends
    nothing to a model. Exit code: 0 all checks passed, 1 a check failed.
    """
    import warnings

    from deep_core import PluginWarning

    from .checks import examine

    checks: list[Check] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PluginWarning)  # doctor has a check for each
        for check in examine(config, timeout):
            checks.append(check)
            if not as_json:
                _print(check)
    failed = [check for check in checks if not check.ok]
    if as_json:
        say_json({"schema": 1, "checks": [c.to_json() for c in checks]})
    else:
        say(f"\n{len(failed)} of {len(checks)} checks failed." if failed else f"\nAll {len(checks)} checks passed.")
    ctx.exit(FAILED if failed else 0)


def _print(check: Check) -> None:
    say(("ok  ", "green") if check.ok else ("FAIL", "red"), f"  {check.message}")
    if check.fix:
        say("      ", ("->", "dim"), f" {check.fix}")
