"""What tools of Pydantic AI's harness do, by name: their authors give them no tags, and without tags a tool counts as
`write`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["tags_for"]

_READ = (
    "check_command", "file_info", "find_files", "get_available_tasks", "grep", "list_authored_capabilities",
    "list_directory", "list_files", "localstack_health", "read_file", "read_memory", "read_plan", "read_tool_result",
    "search_conversation_history", "search_files", "search_memory",
)  # fmt: skip
_READ_NETWORK = ("read_pyai_docs", "smart_search", "advisor")
_EXECUTE = ("aws_cli", "run_macroscope_review")
HARNESS: Mapping[str, Sequence[str]] = {
    **dict.fromkeys(_READ, ("read",)),
    **dict.fromkeys(_READ_NETWORK, ("read", "network")),
    **dict.fromkeys(_EXECUTE, ("execute", "network")),
    "delete_memory": ("write", "destructive"),
    # In a sandbox without files and network, a program reaches only tools that never ask.
    "run_code": ("write",),
}
"""Tool of the harness -> its tags."""


def tags_for(tool: str, metadata: Mapping[str, Any], *, harness: bool) -> Sequence[str]:
    """Return the tags of a tool that has none; nothing if they are not known.

    Args:
        tool: its original name.
        metadata: as its author wrote it. `code_arg_name` says which argument is code or a command.
        harness: whether its capability is one of the harness.
    """
    known = HARNESS.get(tool, ()) if harness else ()
    return known or (("execute",) if "code_arg_name" in metadata else ())
