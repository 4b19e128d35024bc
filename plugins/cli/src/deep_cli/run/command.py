"""`deep run`: one task on the current folder."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ..flags import (
    agent_options,
    config_option,
    plan_option,
    quiet_option,
    store_option,
    verbose,
    verbose_option,
)
from ..terminal.output import say_json
from ..terminal.screen import is_text, label, redirect_prints
from .finish import finish

if TYPE_CHECKING:
    from .task_screen import TerminalReporter

__all__ = ["run_command"]


@click.command("run")
@click.argument("task", required=False)
@agent_options()
@click.option(
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    help="Format of stdout. Default: text.",
)
@click.option("--session", metavar="NAME", help="Store the conversation under this name, and continue it.")
@click.option("--retry", is_flag=True, help="Try the last run of --session again, from its last step.")
@click.option("--compact", is_flag=True, help="Summarize --session so far; TASK says what to keep above all.")
@click.option("--queue", is_flag=True, help="Leave TASK to a worker (deep worker), and print the session's name.")
@click.option("--worktree", is_flag=True, help="Work in a new git worktree, to be merged or dropped.")
@plan_option
@store_option
@config_option
@quiet_option
@verbose_option
@click.pass_context
def run_command(
    ctx: click.Context,
    task: str | None,
    model: str | None,
    backend: str | None,
    files: tuple[Path, ...],
    approve: Literal["ask", "allow", "deny"] | None,
    max_requests: int | None,
    plugin_files: tuple[Path, ...],
    agent_name: str | None,
    output: str,
    session: str | None,
    retry: bool,
    compact: bool,
    queue: bool,
    worktree: bool,
    plan: bool,
    store: str | None,
    config: Path | None,
    quiet: bool = False,
) -> None:
    """Let the agent do TASK on the current folder.

    What is piped to stdin goes with the task, as data; without TASK it is the task. With --session and neither,
    continue the last run: one that was interrupted, that failed or was stopped, or whose calls wait for approval.

    Progress goes to stderr, the answer to stdout. The conversation is stored: `deep chat --resume ID` continues it.
    Exit code: 0 done, 1 failed, 2 usage or configuration, 3 an approval was denied or unanswered.
    """
    if not is_text(task or ""):
        raise click.UsageError("TASK has bytes that are not UTF-8: set the terminal to UTF-8.")
    if session is None and store is not None and not queue:
        raise click.UsageError("--store needs --session NAME, or --queue.")
    if task is not None and not task.strip():
        raise click.UsageError("TASK is empty: say what to do.")
    if retry and (session is None or task is not None or queue):
        raise click.UsageError("--retry tries the last run again: give it --session NAME, and no TASK or --queue.")
    if worktree and (session is not None or queue or compact):
        raise click.UsageError("--worktree begins a session of its own: leave out --session, --queue and --compact.")
    if compact:
        if session is None or retry or queue or files or plan:
            raise click.UsageError("--compact summarizes a session: give it --session NAME, and no other task.")
        from .compacting import compact_session

        compact_session(
            session, task or "", model, backend, store, config, plugin_files=plugin_files, as_json=output == "json"
        )
        return
    from .piped import piped

    # `deep run --session NAME` in a script continues the session: its stdin is the script's own.
    given = "" if task is None and session is not None else piped(sys.stdin)
    if task is None:
        task, given = given.strip() or None, ""
    if task is None and (session is None or queue):
        raise click.UsageError("TASK is empty: say what to do.")
    if queue:
        if model or backend or approve or max_requests or plugin_files or plan or agent_name:
            raise click.UsageError(
                "--queue leaves agent, model, backend, plugins, approvals and limits to deep worker."
            )
        from .queued import enqueue

        enqueue(task or "", files, session, store, config, given=given, as_json=output == "json")
        return
    from ..plugins.files import load_plugin_files
    from .first_run import chooser
    from .rules import rules_of
    from .runner import run_task
    from .task_screen import TerminalReporter

    with (
        _reporting(
            as_json=output == "json",
        ),
        redirect_prints() as stdout,
    ):
        answer = None if output == "json" else stdout
        screen = TerminalReporter(answer, verbose=verbose(ctx), quiet=quiet, agent=agent_name)
        with screen.open(), _in_worktree(screen, wanted=worktree) as folder:
            screen.rules = None if screen.ask is None else rules_of(os.path.realpath(folder or Path.cwd()))
            plugins: Any = load_plugin_files(plugin_files)
            report = run_task(
                task,
                model=model,
                backend=backend,
                files=files,
                given=given,
                approve=approve,
                ask=screen.ask,
                plugins=plugins,
                config=config,
                folder=folder,
                max_requests=max_requests,
                reporter=screen,
                session=session,
                store=store,
                keep=session is None,
                plan=plan,
                rules=screen.rules,
                choose=chooser(),
                agent=agent_name,
                measure=output == "json" or verbose(ctx),  # 20 ms at the end of every task
            )
    finish(ctx, report, as_json=output == "json")


@contextmanager
def _in_worktree(screen: TerminalReporter, *, wanted: bool) -> Generator[Path | None]:
    """Make a worktree if it is wanted; at the end, say what it has and what to type. Yields the folder to work in."""
    if not wanted:
        yield None
        return
    from .worktrees import add_worktree, summary

    made, folder = add_worktree(Path.cwd())
    screen.note(f"in the worktree {made.name}, of what is committed: {label(str(made.path))}")
    try:
        yield folder
    finally:
        screen.note(f"worktree {made.name}: {summary(made)}")
        screen.note(f"  deep worktree diff {made.name}; merge or drop instead of diff ends it")


@contextmanager
def _reporting(*, as_json: bool) -> Generator[None]:
    """Print the report of a task that Ctrl-C ended, if it is to be JSON. The last line says it in words."""
    from .runner import Interrupted

    try:
        yield
    except BaseException as error:
        stop: BaseException | None = error
        while stop is not None and not isinstance(stop, Interrupted):
            stop = stop.__context__
        if as_json and stop is not None:
            say_json(stop.report.to_json())
        raise
