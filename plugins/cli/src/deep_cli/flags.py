"""Flags that several commands share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = [
    "BACKEND",
    "agent_option",
    "agent_options",
    "approve_option",
    "backend_option",
    "config_option",
    "file_option",
    "given_profile",
    "json_option",
    "model_of",
    "plan_option",
    "plugin_option",
    "quiet_option",
    "store_option",
    "verbose",
    "verbose_option",
]

F = TypeVar("F", bound=Callable[..., Any])
BACKEND = "local"
"""The default of `--backend`."""
VERBOSE = "deep_cli.verbose"
MODEL = "deep_cli.model"
PROFILE = "deep_cli.profile"
FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


def verbose(ctx: click.Context) -> bool:
    """Whether `--verbose` was typed, before or after the command's name."""
    return bool(ctx.meta.get(VERBOSE))


def model_of(ctx: click.Context) -> str:
    """The model given with `--model`, for errors of its provider; "" for none."""
    return ctx.meta.get(MODEL) or ""


def _note(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        from .plugins.warnings import show_more

        ctx.meta[VERBOSE] = True
        show_more()


def _note_profile(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value:
        ctx.meta[PROFILE] = value


def given_profile() -> str | None:
    """Return the value of `--profile` of the command that runs."""
    ctx = click.get_current_context(silent=True)
    return None if ctx is None else ctx.meta.get(PROFILE)


def _note_model(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    ctx.meta[MODEL] = value
    return value


verbose_option = click.option(
    "-v",
    "--verbose",
    is_flag=True,
    expose_value=False,
    callback=_note,
    help="Show more: each request, long outputs, tracebacks.",
)
file_option = click.option(
    "--file",
    "files",
    metavar="FILE",
    type=FILE,
    multiple=True,
    help="Attach a text file or a picture to the task (in a chat, to the first message); may be given several times.",
)
store_option = click.option(
    "--store",
    metavar="URL",
    help="Where sessions are: sqlite:///path or postgresql://…. Default: sessions.db in deep's data folder.",
)
plan_option = click.option(
    "--plan", is_flag=True, help="Plan first: use only tools that read until you approve the plan."
)
backend_option = click.option(
    "--backend",
    metavar="NAME",
    help="Where files are and commands run. Default: local, the current folder.",
)
approve_option = click.option(
    "--approve",
    type=click.Choice(["ask", "allow", "deny"]),
    help="How to decide calls that need approval. Default: ask; without a terminal, deny.",
)
quiet_option = click.option("-q", "--quiet", is_flag=True, help="Show only the answer, questions and what failed.")
json_option = click.option("--json", "as_json", is_flag=True, help='Print JSON ("schema": 1, documented).')
config_option = click.option(
    "--config",
    type=FILE,
    help="A configuration file; it is trusted.",
)
plugin_option = click.option(
    "-p",
    "--plugin",
    "plugin_files",
    metavar="PLUGIN.py",
    type=FILE,
    multiple=True,
    help="A plugin file; may be given several times.",
)


agent_option = click.option(
    "--agent",
    "agent_name",
    metavar="NAME",
    help="An agent of your own: module:attribute, file.py:attribute or agent.yaml. Default: deep's, of all plugins.",
)


def agent_options(*, files: bool = True) -> Callable[[F], F]:
    """Add the options of `deep run` and `deep chat`: model, backend, files, approvals.

    Args:
        files: whether `--file` is one of them.
    """

    options: list[Callable[[Any], Any]] = [
        click.option(
            "-m",
            "--model",
            metavar="MODEL",
            callback=_note_model,
            help="provider:name, as openai:gpt-5.2. Default: DEEP_MODEL, [agent] model.",
        ),
        click.option(
            "--profile",
            type=click.Choice(["small"]),
            expose_value=False,
            callback=_note_profile,
            help="small: four tools and short results, for models with a window of 2,000 to 8,000 tokens.",
        ),
        backend_option,
        *([file_option] if files else []),
        approve_option,
        click.option(
            "--max-requests",
            type=click.IntRange(min=1),
            help="Maximum requests to the model (in a chat, for one message). Default: 200.",
        ),
        plugin_option,
        agent_option,
    ]

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add
