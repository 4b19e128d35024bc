"""The names that files of others give to tools, and their calls as those files expect them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

__all__ = ["call_as_others_see_it", "tools_but", "tools_expression"]

OURS: Mapping[str, str] = {
    "Agent": "task",
    "AskUserQuestion": "ask_user",
    "Bash": "execute",
    "BashOutput": "read_output",
    "Edit": "edit_file",
    "Glob": "glob",
    "Grep": "grep",
    "KillShell": "stop_command",
    "LS": "ls",
    "ListMcpResourcesTool": "list_mcp_resources",
    "MultiEdit": "edit_file",
    "Read": "read_file",
    "ReadMcpResourceTool": "read_mcp_resource",
    "Skill": "load_skill",
    "Task": "task",
    "TodoRead": "read_todos",
    "TodoWrite": "write_todos",
    "WebFetch": "fetch",
    "WebSearch": "search",
    "Write": "write_file",
}
"""Another program's tool -> ours."""
THEIRS: Mapping[str, tuple[str, ...]] = {
    ours: tuple(theirs for theirs, name in OURS.items() if name == ours) for ours in dict.fromkeys(OURS.values())
}
_KNOWN = {**{ours: ours for ours in OURS.values()}, **{theirs.casefold(): ours for theirs, ours in OURS.items()}}
ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "load_skill": {"skill_name": "skill"},
    "task": {"description": "prompt"},
}
"""Of our tools: an argument -> the name under which others' hooks read it."""
FILE_TOOLS = ("read_file", "write_file", "edit_file")
_MCP = re.compile(r"mcp__(?:plugin_[A-Za-z0-9.-]+_)?([A-Za-z0-9-][A-Za-z0-9_-]*?)(?:__(.*))?")


def tools_expression(names: Sequence[str]) -> tuple[str | None, list[str]]:
    """Turn a list of others' tools into a tool expression. Case does not matter; our own names are known too.

    Returns:
        The expression, None for all tools (`*`), "" for none; and the names that no tool of ours has.
    """
    if any(name.casefold() in ("*", "all", "all tools") for name in names):
        return None, []
    atoms: list[str] = []
    unknown: list[str] = []
    for name in names:
        # `Read Grep` are two. `All but Bash` is no list of names: `Bash` is not what it asks for.
        found = [_atom(each) for each in re.findall(r"[^\s()]+(?:\s*\((?:[^()]|\([^()]*\))*\))?", name)]
        known = [atom for atom in found if atom]
        if known and len(known) == len(found):
            atoms += known
        elif whole := _atom(name):
            atoms.append(whole)
        else:
            unknown.append(name)
    # If all of them are unknown, it has none: it must not get more than it asks for.
    return " | ".join(dict.fromkeys(atoms)), unknown


def _atom(name: str) -> str | None:
    plain = name.partition("(")[0].strip()
    if server := _MCP.fullmatch(plain):
        tool = server[2] or "*"
        named = f'prefix:"{server[1]}_"' if tool == "*" else f'name:"{server[1]}_{tool}"'
        return f"(plugin:mcp & {named})"  # a tool of another plugin may have this name
    ours = _KNOWN.get(plain.casefold())
    return ours and f"name:{ours}"


def tools_but(tools: str | None, never: str | None) -> str | None:
    """Return a tool expression without the tools of another; each is as `tools_expression` returns it."""
    if never is None or tools == "":
        return ""
    if not never:
        return tools
    return f"~({never})" if tools is None else f"({tools}) & ~({never})"


def call_as_others_see_it(
    tool: str, plugin: str, args: Mapping[str, Any], folder: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the names by which others' hooks may know a tool, each with the arguments as they expect them.

    Args:
        tool: its name.
        plugin: that it comes from.
        args: of the call.
        folder: the working directory.
    """
    given = dict(args)
    if tool in FILE_TOOLS and isinstance(path := given.pop("path", None), str):
        given = {"file_path": posixpath.normpath(posixpath.join(folder, path)), **given}
    for ours, theirs in ARGUMENTS.get(tool, {}).items():
        if ours in given:
            given = {theirs: given[ours], **given}
    for name in THEIRS.get(tool, ()):
        yield name, given
    if tool == "send_input":  # what is typed into a shell is a command: a hook that watches commands sees it
        yield "Bash", {"command": given.get("input", "")}
    if plugin == "mcp":  # where a server's name ends is not known: any split may be meant
        for match in re.finditer("_", tool):
            yield f"mcp__{tool[: match.start()]}__{tool[match.end() :]}", given
    yield tool, dict(args)
