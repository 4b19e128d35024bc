"""The command `deep`: run, demo, plugins, explain, doctor, config.

Public names are loaded on first use, so that `deep --version` and finding this plugin import neither pydantic nor
Pydantic AI, rich nor click.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl

if TYPE_CHECKING:
    from .approval import Answer, ApprovalMode, Ask, Question
    from .changes import FileChange
    from .failure import Failure
    from .options import CliOptions
    from .report import Decision, RunReport, Step
    from .reporter import Reporter
    from .runner import run_task
    from .terminal import TerminalReporter

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "ApprovalMode",
    "Ask",
    "CliOptions",
    "Decision",
    "Failure",
    "FileChange",
    "Question",
    "Reporter",
    "RunReport",
    "Step",
    "TerminalReporter",
    "run_task",
]

_HOMES = {
    "Answer": "approval",
    "ApprovalMode": "approval",
    "Ask": "approval",
    "CliOptions": "options",
    "Decision": "report",
    "Failure": "failure",
    "FileChange": "changes",
    "Question": "approval",
    "Reporter": "reporter",
    "RunReport": "report",
    "Step": "report",
    "TerminalReporter": "terminal",
    "run_task": "runner",
}


@hookimpl
def deep_options() -> type[CliOptions]:
    """The options of `[plugins.cli]`."""
    from .options import CliOptions

    return CliOptions


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
