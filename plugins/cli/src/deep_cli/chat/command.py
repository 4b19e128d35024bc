"""`deep chat`: a conversation about the current folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from ..flags import agent_options, config_option, plan_option, verbose, verbose_option

__all__ = ["chat"]


@click.command()
@agent_options()
@click.option(
    "--resume",
    metavar="[ID]",
    is_flag=False,
    flag_value="newest",
    help="Resume a chat of this folder; without ID, the newest.",
)
@plan_option
@config_option
@verbose_option
@click.pass_context
def chat(
    ctx: click.Context,
    model: str | None,
    backend: str | None,
    files: tuple[Path, ...],
    approve: Literal["ask", "allow", "deny"] | None,
    max_requests: int | None,
    plugin_files: tuple[Path, ...],
    agent_name: str | None,
    resume: str | None,
    plan: bool,
    config: Path | None,
) -> None:
    """Talk with the agent about the current folder.

    The answer is streamed; a call that needs approval asks, and shows its changes. Ctrl-C stops a turn and keeps its
    results. The chat is stored after every turn: --resume picks up where you left off.

    Without a terminal each line of stdin is a message. Exit code: 0 done; 2 usage or configuration; without a
    terminal 1 a turn failed, 3 an approval was denied or unanswered.
    """
    from ..plugins.files import load_plugin_files
    from .start import run_chat

    plugins: Any = load_plugin_files(plugin_files)
    code = run_chat(
        model=model,
        backend=backend,
        files=files,
        approve=approve,
        max_requests=max_requests,
        plugins=plugins,
        resume=resume,
        config=config,
        trace=verbose(ctx),
        plan=plan,
        agent_name=agent_name,
    )
    ctx.exit(code)
