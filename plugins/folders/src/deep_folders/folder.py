"""What one folder of skills, servers, agents, commands and hooks holds, as it was read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, cast

__all__ = [
    "ABOUT_CALLS",
    "AFTER_CALLS",
    "AgentEntry",
    "CommandEntry",
    "Folder",
    "FolderFormat",
    "HookEntry",
    "HookEvent",
    "Note",
    "ServerEntry",
    "StyleEntry",
    "entry_in",
    "read_text",
]

FolderFormat = Literal["agent-plugin", "claude-plugin"]
HookEvent = Literal[
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "SessionStart",
    "SessionEnd",
    "UserPromptExpansion",
    "UserPromptSubmit",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "Notification",
    "PreCompact",
]
AFTER_CALLS: tuple[HookEvent, ...] = ("PostToolUse", "PostToolUseFailure")
ABOUT_CALLS: tuple[HookEvent, ...] = ("PreToolUse", *AFTER_CALLS)

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")
MOST_BYTES = 262_144
"""Of one file of a folder that is read whole."""
NAME = re.compile(r"(?!.*(?:--|\.\.))[a-z0-9](?:[a-z0-9.-]{0,62}[a-z0-9])?")
"""A folder's name: that of an Agent Plugin."""


@dataclass(frozen=True)
class Note:
    """Something in a folder that has no effect here.

    Attributes:
        kind: `unsupported`: deep-folders does not do that; `ignored`: an unknown key; `invalid`: it is wrong.
        what: the part, as a person finds it in the folder.
        why: the reason, or what happens instead.
    """

    kind: Literal["unsupported", "ignored", "invalid"]
    what: str
    why: str


@dataclass(frozen=True)
class ServerEntry:
    """An MCP server of a folder, in the form of `.mcp.json`, with the folder's paths filled in.

    Attributes:
        name: of the server.
        table: its entry.
        variables: whether `${VAR}` in it stands for an environment variable.
    """

    name: str
    table: Mapping[str, Any]
    variables: bool

    @property
    def target(self) -> str:
        """The program or the address."""
        command = self.table.get("command")
        return " ".join(map(str, [command, *self.table.get("args", ())])) if command else str(self.table.get("url", ""))

    @property
    def taken(self) -> tuple[str, ...]:
        """The variables of the environment whose values it gets: they may be keys."""
        names = _VARIABLE.findall("\n".join(_texts(self.table))) if self.variables else []
        return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class AgentEntry:
    """A type of subagents.

    Attributes:
        name: of the type.
        description: when to use it.
        instructions: its prompt.
        tools: a tool expression; None for all tools.
    """

    name: str
    description: str
    instructions: str
    tools: str | None = None


@dataclass(frozen=True)
class CommandEntry:
    """A slash command.

    Attributes:
        name: without the folder's.
        description: what it does.
        usage: its arguments, for people.
        text: the prompt, with placeholders.
    """

    name: str
    description: str
    usage: str
    text: str


@dataclass(frozen=True)
class HookEntry:
    """A program that runs around calls of tools, and around runs; or a question to the model.

    Attributes:
        event: when.
        matcher: names or a regular expression: of the tool, of what starts or ends the session or asks for a
            compaction, or of the kind of notification or subagent; "" for all.
        command: of a shell, or with `args` a program; "" for a question.
        args: its arguments; None for a shell's command.
        timeout: in seconds.
        only: the calls that the matcher's tools are narrowed to, as `Bash(git push *)`; "" for all.
        background: whether it runs beside the run, and decides nothing.
        wakes: whether what it says with exit code 2, beside the run, reaches the model, and the run goes on for it.
        prefix: the text before that.
        skill: the folder of the skill whose hook it is: it runs while the skill is in use.
        prompt: the question that the agent's model answers; "" for a program.
        once: whether it ends its work for a session when it has run well.
    """

    event: HookEvent
    matcher: str
    command: str
    args: tuple[str, ...] | None
    timeout: float
    only: str = ""
    background: bool = False
    prompt: str = ""
    wakes: bool = False
    prefix: str = ""
    skill: Path | None = None
    once: bool = False

    def before(self, said: str) -> str:
        """Return what the model reads of what it said: behind its own prefix."""
        return f"{self.prefix}\n{said}" if self.prefix else said


@dataclass(frozen=True)
class StyleEntry:
    """An output style.

    Attributes:
        name: of the style.
        description: what it does.
        text: for the system prompt.
        always: whether it counts without being chosen.
    """

    name: str
    description: str
    text: str
    always: bool = False


@dataclass(frozen=True)
class Folder:
    """One folder.

    Attributes:
        name: of the folder.
        format: how it was read.
        root: the folder, resolved.
        source: where it comes from, for people.
        version: as it says itself.
        description: likewise.
        skills: the folders of its skills.
        servers: its MCP servers.
        agents: its types of subagents.
        commands: its slash commands.
        hooks: its programs around calls of tools and around runs.
        styles: its output styles.
        notes: what has no effect.
        problem: why nothing of it is used; "" if it is used.
        blocked: why its programs do not start; "" if they may.
        data: the folder for what its programs keep.
        hook_env: the further variables of this process that its hooks get; `SG_*` for all that begin so.
    """

    name: str
    format: FolderFormat
    root: Path
    source: str = ""
    version: str = ""
    description: str = ""
    skills: tuple[Path, ...] = ()
    servers: tuple[ServerEntry, ...] = ()
    agents: tuple[AgentEntry, ...] = ()
    commands: tuple[CommandEntry, ...] = ()
    hooks: tuple[HookEntry, ...] = ()
    styles: tuple[StyleEntry, ...] = ()
    notes: tuple[Note, ...] = field(default=())
    problem: str = ""
    blocked: str = ""
    data: Path = Path()
    hook_env: tuple[str, ...] = ()

    @property
    def has_programs(self) -> bool:
        """Whether it starts programs, or connects to a server."""
        return bool(self.hooks or self.servers)

    @property
    def only_skills(self) -> Folder:
        """This folder without the rest."""
        return replace(self, servers=(), agents=(), commands=(), hooks=(), styles=(), notes=())

    @property
    def counts(self) -> str:
        """What it brings, in a few words."""
        parts = [("skill", self.skills), ("MCP server", self.servers), ("subagent type", self.agents)]
        parts += [("command", self.commands), ("hook", self.hooks), ("output style", self.styles)]
        return ", ".join(f"{len(x)} {word}{'s' * (len(x) != 1)}" for word, x in parts if x) or "nothing"


def _texts(value: object) -> Iterator[str]:
    """Yield every text in a table, those of its keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for pair in cast("Mapping[object, object]", value).items():
            yield from _texts(list(pair))
    elif isinstance(value, list | tuple):
        for item in cast("list[object]", value):
            yield from _texts(item)


def entry_in(root: Path, relative: str) -> Path | None:
    """Return a path of a folder, resolved; None if it does not exist.

    Args:
        root: the folder, resolved.
        relative: the path.

    Raises:
        ValueError: it leads out of the folder.
    """
    try:
        path = (root / relative).resolve(strict=True)
    except (OSError, RuntimeError):  # RuntimeError: a loop of links, before Python 3.13
        return None
    if not path.is_relative_to(root):
        raise ValueError(f"{relative} leads out of the folder")
    return path


def read_text(path: Path) -> str:
    """Read a small text file.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not a file, not UTF-8, or too large.
    """
    if not path.is_file():
        raise ValueError(f"{path.name} is not a file")
    if path.stat().st_size > MOST_BYTES:
        raise ValueError(f"{path.name} has more than {MOST_BYTES:,} bytes")
    return path.read_text(encoding="utf-8-sig")
