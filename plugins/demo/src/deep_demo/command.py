"""`deep demo`: do a task on a copy of the sample project. Only deep-cli imports this, when it was typed."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import NoReturn

import click
from deep_cli import Failure, TerminalReporter, run_task, say

from deep_core.plugin_api import find_plugins

from .sample_files import copy_sample_project

__all__ = ["command"]

MODEL = "demo:tour"
TASK = "Look around in this project, fix what is wrong with it, and write down what you did."
NEEDED = {"demo": "deep-demo", "backends": "deep-backends", "filesystem": "deep-filesystem"}
"""Plugins that the task needs, and their distributions."""


@click.command("demo")
@click.option(
    "--dir",
    "directory",
    metavar="DIR",
    type=click.Path(file_okay=False, path_type=Path),
    help="A new or empty folder to work in; it is kept. Default: a temporary one.",
)
@click.pass_context
def command(ctx: click.Context, directory: Path | None) -> None:
    """Show a task without a key: a scripted model, and everything else real.

    The agent works on a copy of a sample project as `deep run` would: real tools, real files, real
    commands. Calls that need approval are approved, and shown.
    """
    _check_plugins()
    folder = _copy(directory)
    say(
        f"A copy of a small Python project is in {folder}.\n"
        f"The model is a script ({MODEL}: no key, no network); tools, files and commands are real. Calls that need\n"
        "your approval are approved here, and shown. The same with your model:\n"
        f'  cd {folder} && deep run "{TASK}" --model openai:gpt-5.2\n',
        err=True,
    )
    with TerminalReporter(sys.stdout).open() as screen:
        report = run_task(TASK, model=MODEL, backend="local", approve="allow", folder=folder, reporter=screen)
    if report.error is not None:
        raise Failure(report.error, report.exit_code)
    say(f"\nSee what changed: {folder}\nNext: deep plugins list, deep explain, deep doctor", err=True)
    ctx.exit(report.exit_code)


def _check_plugins() -> None:
    records = {record.name: record for record in find_plugins().records}
    absent = [distribution for name, distribution in NEEDED.items() if name not in records]
    if absent:
        raise Failure(f"the demo needs {' and '.join(absent)}: pip install {' '.join(absent)}")
    for name in NEEDED:
        record = records[name]
        if record.status != "active":
            raise Failure(f"the demo needs plugin {record.label}, which is {record.status}: {record.reason}")


def _copy(directory: Path | None) -> Path:
    if directory is None:
        return copy_sample_project(Path(tempfile.mkdtemp(prefix="deep-demo-")))
    try:
        return copy_sample_project(directory)
    except FileExistsError as error:
        _refuse(f"{error}; name another one with --dir, or leave --dir out")
    except OSError as error:
        _refuse(f"--dir {directory}: {error.strerror or error}")


def _refuse(message: str) -> NoReturn:
    raise Failure(message, 2)
