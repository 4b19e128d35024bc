"""How the editor shows a call: its title, its kind, its place."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from acp.helpers import text_block, tool_content, tool_diff_content
from acp.schema import ToolCallLocation
from pydantic_core import from_json

from deep_core.plugin_api import visible

if TYPE_CHECKING:
    from acp.schema import ToolKind

    from .changes import Change

__all__ = ["content_of_change", "content_of_text", "kind_of", "locations_of", "raw_of", "read_args", "title_of_call"]

TITLE = 120
"""Most characters of a title."""
RAW = 20_000
"""Most characters of arguments that are sent as they are."""
_CUT = re.compile(r" … [\d,]+ characters hidden\Z")
_SUBJECTS = ("command", "path", "file_path", "pattern", "query", "url", "description", "name")
"""Arguments that say what a call is about."""


def read_args(shown: str) -> tuple[Mapping[str, Any], bool]:
    """Return the arguments of an event, and whether they are whole: else the last value may be cut."""
    text = _CUT.sub("", shown)
    is_whole = text == shown
    try:
        args: object = from_json(text, allow_partial="off" if is_whole else "trailing-strings")
    except ValueError:
        return {}, False
    return (cast("Mapping[str, Any]", args), is_whole) if isinstance(args, dict) else ({}, False)


def title_of_call(tool: str, args: Mapping[str, Any], agent: str = "") -> str:
    """Return a line that says what a call does."""
    subject = next((args[key] for key in _SUBJECTS if isinstance(args.get(key), str) and args[key].strip()), "")
    name = tool.replace("_", " ")
    line = visible(" ".join(f"{name} {subject}".split()))
    line = line if len(line) <= TITLE else f"{line[: TITLE - 1]}…"
    return f"{visible(agent)}: {line}" if agent else line


def kind_of(tool: str, plugin: str, tags: Sequence[str], args: Mapping[str, Any]) -> ToolKind:
    """Return the kind of a tool, which chooses its icon."""
    if plugin == "todo":
        return "think"
    if "execute" in tags:
        return "execute"
    if "network" in tags:
        return "fetch"
    if "read" in tags:
        return "search" if tool in ("grep", "glob", "ls") or "pattern" in args or "query" in args else "read"
    if "path" in args or "file_path" in args:
        return "edit"
    return "other"


def locations_of(args: Mapping[str, Any], folder: str) -> list[ToolCallLocation]:
    """Return the file that a call is about, so that the editor can follow."""
    path = args.get("path", args.get("file_path"))
    if not isinstance(path, str) or not path:
        return []
    line = args.get("offset", args.get("line"))
    where = posixpath.normpath(posixpath.join(folder, path))
    return [ToolCallLocation(path=where, line=line if isinstance(line, int) and line > 0 else None)]


def raw_of(args: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return arguments that are small enough to be sent as they are."""
    return args if args and len(json.dumps(args, default=str)) <= RAW else None


def content_of_change(change: Change) -> Any:
    """Return a change as a diff."""
    return tool_diff_content(change.path, change.new, change.old)


def content_of_text(text: str) -> Any:
    """Return a result as text that no Markdown in it changes."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return tool_content(text_block(f"{fence}\n{text}\n{fence}"))
