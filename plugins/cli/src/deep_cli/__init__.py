"""The command `deep`: run, demo, plugins, explain, doctor, config.

Public names are loaded on first use: `deep --version` and plugin discovery import none of pydantic, Pydantic AI, rich
and click.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from .chat.old_chats import read_old_chats
    from .config.keys import load_key
    from .failure import Failure
    from .flags import (
        agent_option,
        agent_options,
        approve_option,
        backend_option,
        config_option,
        plugin_option,
        store_option,
    )
    from .options import CliOptions
    from .plugins.files import load_plugin_files
    from .run.agent import find_agent
    from .run.approval import Answer, ApprovalMode, Ask, Question, Refusal
    from .run.changes import FileChange
    from .run.command import run_command
    from .run.names import chats_folder
    from .run.report import Decision, RunReport, Step
    from .run.reporter import Reporter
    from .run.runner import run_task
    from .run.task_screen import TerminalReporter
    from .terminal.output import say, say_json, say_text
    from .terminal.screen import one_line, redact_args

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
    "agent_option",
    "agent_options",
    "approve_option",
    "backend_option",
    "chats_folder",
    "config_option",
    "find_agent",
    "load_key",
    "load_plugin_files",
    "one_line",
    "plugin_option",
    "read_old_chats",
    "redact_args",
    "run_command",
    "run_task",
    "say",
    "say_json",
    "say_text",
    "store_option",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "run.agent": ["find_agent"],
        "run.approval": ["Answer", "ApprovalMode", "Ask", "Question", "Refusal"],
        "run.changes": ["FileChange"],
        "run.command": ["run_command"],
        "run.names": ["chats_folder"],
        "failure": ["Failure"],
        "flags": [
            "agent_option",
            "agent_options",
            "approve_option",
            "backend_option",
            "config_option",
            "plugin_option",
            "store_option",
        ],
        "config.keys": ["load_key"],
        "chat.old_chats": ["read_old_chats"],
        "options": ["CliOptions"],
        "terminal.output": ["say", "say_json", "say_text"],
        "plugins.files": ["load_plugin_files"],
        "run.report": ["Decision", "RunReport", "Step"],
        "run.reporter": ["Reporter"],
        "run.runner": ["run_task"],
        "terminal.screen": ["one_line", "redact_args"],
        "run.task_screen": ["TerminalReporter"],
    },
)


@hookimpl
def deep_options() -> type[CliOptions]:
    """Return the options of `[plugins.cli]`."""
    from .options import CliOptions

    return CliOptions
