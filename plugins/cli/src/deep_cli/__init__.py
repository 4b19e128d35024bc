"""The command `deep`: run, demo, plugins, explain, doctor, config.

Public names are loaded on first use: `deep --version` and plugin discovery import none of pydantic, Pydantic AI, rich
and click.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from .approval import Answer, ApprovalMode, Ask, Question, Refusal
    from .changes import FileChange
    from .commands.run import run
    from .failure import Failure
    from .flags import agent_options, approve_option, backend_option, config_option, plugin_option, store_option
    from .keys import load_key
    from .old_chats import read_old_chats
    from .options import CliOptions
    from .output import say, say_json, say_text
    from .plugin_files import load_plugin_files
    from .report import Decision, RunReport, Step
    from .reporter import Reporter
    from .runner import run_task
    from .screen import one_line
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
    "Refusal",
    "Reporter",
    "RunReport",
    "Step",
    "TerminalReporter",
    "agent_options",
    "approve_option",
    "backend_option",
    "config_option",
    "load_key",
    "load_plugin_files",
    "one_line",
    "plugin_option",
    "read_old_chats",
    "run",
    "run_task",
    "say",
    "say_json",
    "say_text",
    "store_option",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "approval": ["Answer", "ApprovalMode", "Ask", "Question", "Refusal"],
        "changes": ["FileChange"],
        "commands.run": ["run"],
        "failure": ["Failure"],
        "flags": [
            "agent_options",
            "approve_option",
            "backend_option",
            "config_option",
            "plugin_option",
            "store_option",
        ],
        "keys": ["load_key"],
        "old_chats": ["read_old_chats"],
        "options": ["CliOptions"],
        "output": ["say", "say_json", "say_text"],
        "plugin_files": ["load_plugin_files"],
        "report": ["Decision", "RunReport", "Step"],
        "reporter": ["Reporter"],
        "runner": ["run_task"],
        "screen": ["one_line"],
        "terminal": ["TerminalReporter"],
    },
)


@hookimpl
def deep_options() -> type[CliOptions]:
    """Return the options of `[plugins.cli]`."""
    from .options import CliOptions

    return CliOptions
