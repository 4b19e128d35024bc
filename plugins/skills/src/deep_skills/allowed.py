"""`allowed-tools` and approval: a skill may narrow what runs unasked; it can never widen it.

The standard calls the field a list of tools that are approved beforehand. A skill file may be hostile, so here it
approves nothing. What it can do is the other half: while a skill that lists its tools is in use, calls that it does
not list, and that change something, need a person's approval.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from deep_core import STANDARD_TAGS, Ask, ToolCall

if TYPE_CHECKING:
    from .active import ActiveSkill

__all__ = ["covers", "narrowed"]

CHANGING = {*STANDARD_TAGS, "subagent"} - {"read"}
"""Tags of tools that do something. Others (read, and notes such as todos) are never held up. To delegate is to do what
the child may: it starts without skills, so none of its own calls would be asked about."""

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
    "todowrite": frozenset({"write_todos"}),
}
"""Names that skills in the wild use, in lower case, and our tools of the same use."""

_ENTRY = re.compile(r"([^()\s]+)(?:\((.*)\))?", re.S)
_COMPOUND = re.compile(r"[;&|<>`\n\r]|\$\(|\$\{")
"""What makes of one shell command several, or sends its output somewhere."""


def narrowed(call: ToolCall, active: Iterable[ActiveSkill]) -> Ask | None:
    """What the skills in use say of a call: a person decides, or nothing.

    Nothing where the call changes nothing, where no skill is in use, or where one in use lists no tools at all: it
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
    """Whether an entry of `allowed-tools` is about this call.

    `Read` or `read_file` names a tool; `Bash(git:*)` and `Bash(git *)` commands that begin with `git`, one command
    at a time; `Edit(docs/**)` a path. A form that is not understood covers nothing.
    """
    match = _ENTRY.fullmatch(entry.strip())
    if match is None:
        return False
    name, pattern = match[1], match[2]
    if name not in (call.tool, call.original) and call.original not in KNOWN_AS.get(name.lower(), ()):
        return False
    return pattern is None or pattern.strip() in ("", "*") or _argument(pattern, call.args)


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
    given, wanted = " ".join(command.split()), " ".join(pattern.split())
    for end in (":*", " *"):
        if wanted.endswith(end):
            prefix = wanted.removesuffix(end)
            return bool(prefix) and (given == prefix or given.startswith(prefix + " "))
    return given == wanted
