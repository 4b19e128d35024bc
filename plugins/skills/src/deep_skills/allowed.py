"""`allowed-tools` and approval: a skill may narrow which calls run without approval, never widen it.

In the standard, the field lists tools that are approved beforehand. A skill file may be hostile, so here it
approves nothing. Instead, while a skill with such a list is in use, calls outside of it that change something need
the user's approval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deep_core import STANDARD_TAGS, Ask, ToolCall

if TYPE_CHECKING:
    from .active import ActiveSkill

__all__ = ["covers", "narrow"]

CHANGING = {*STANDARD_TAGS, "subagent"} - {"read"}
"""Tags of tools that change something. Others (read, and notes such as todos) never ask. Delegation counts as what
the child may do: it starts without skills, so none of its calls would ask."""

KNOWN_AS: dict[str, frozenset[str]] = {
    "bash": frozenset({"execute"}),
    "shell": frozenset({"execute"}),
    "read": frozenset({"read_file"}),
    "write": frozenset({"write_file"}),
    "edit": frozenset({"edit_file"}),
    "multiedit": frozenset({"edit_file"}),
    "grep": frozenset({"grep"}),
    "glob": frozenset({"glob"}),
    "ls": frozenset({"ls"}),
    "task": frozenset({"task"}),
    "agent": frozenset({"task"}),
    "todowrite": frozenset({"write_todos"}),
    "webfetch": frozenset({"fetch"}),
    "websearch": frozenset({"search"}),
    "killshell": frozenset({"stop_command"}),
}
"""Names that published skills use, in lower case, and our equivalent tools."""

_ENTRY = re.compile(r"([^()\s]+)(?:\((.*)\))?", re.S)
_OF_SERVER = re.compile(r"mcp__(?:plugin_[A-Za-z0-9.-]+_)?([A-Za-z0-9-][A-Za-z0-9_-]*?)__(.+)")
_QUOTED = re.compile(r"""\A(["'])([^"'\\$\s]+)\1(?=\s|$)""")
"""The program of a command, between quotes."""
_COMPOUND = re.compile(r"[;&|<>`\n\r]|\$\(|\$\{")
"""Shell syntax that combines commands, or redirects output."""


def narrow(call: ToolCall, active: Iterable[ActiveSkill]) -> Ask | None:
    """Apply the skills in use to a call: ask the user, or nothing.

    Nothing if the call changes nothing, if no skill is in use, or if a skill in use has no list: it
    has not said what it needs.
    """
    skills = [skill for skill in active if skill.narrows]
    if not skills or not CHANGING & call.tags or not all(skill.allowed_tools for skill in skills):
        return None
    if any(covers(entry, call) for skill in skills for entry in skill.allowed_tools):
        return None
    names = ", ".join(skill.name for skill in skills)
    return Ask(f"{call.tool} is not among the allowed-tools of the skill in use ({names})")


def covers(entry: str, call: ToolCall) -> bool:
    """Whether an entry of `allowed-tools` covers this call.

    `Read` or `read_file` names a tool; `Bash(git:*)` and `Bash(git *)` commands that begin with `git`, one command
    at a time; `Edit(docs/**)` a path. An unknown form covers nothing.
    """
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        return False
    name, pattern = match[1], match[2]
    known = name in (call.tool, call.original) or call.original in KNOWN_AS.get(name.lower(), ())
    if not known and not (call.plugin == "mcp" and _is_tool_of_server(name, call.tool)):
        return False
    return pattern is None or pattern.strip() in ("", "*") or _argument(pattern, call.args)


def _is_tool_of_server(entry: str, tool: str) -> bool:
    """Whether `mcp__docs__find`, or `mcp__plugin_acme_docs__find`, is the tool `docs_find` of a server."""
    match = _OF_SERVER.fullmatch(entry)
    return match is not None and fnmatchcase(tool, f"{match[1]}_{match[2]}")


def _argument(pattern: str, args: Mapping[str, object]) -> bool:
    command, path = args.get("command"), args.get("path")
    if isinstance(command, str):
        return not _COMPOUND.search(command) and any(_command(part.strip(), command) for part in pattern.split(","))
    if isinstance(path, str):
        clean = path.removeprefix("./")
        return ".." not in clean.split("/") and any(
            fnmatchcase(clean, part.strip().removeprefix("./")) for part in pattern.split(",")
        )
    return False


def _command(pattern: str, command: str) -> bool:
    command_words, pattern_words = _words(command), _words(pattern)
    for end in (":*", " *"):
        if pattern_words.endswith(end):
            prefix = pattern_words.removesuffix(end)
            return bool(prefix) and (command_words == prefix or command_words.startswith(prefix + " "))
    return command_words == pattern_words


def _words(command: str) -> str:
    return " ".join(_QUOTED.sub(r"\2", command.strip()).split())
