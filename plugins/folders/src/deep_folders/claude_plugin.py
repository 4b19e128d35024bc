"""Read a folder in the format of Claude Code's plugins. What is not supported is noted, and the rest is used."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast, get_args

from .agent_plugin import load_object
from .fields import named, plain, text_of, words_of
from .folder import (
    NAME,
    AgentEntry,
    CommandEntry,
    Folder,
    HookEntry,
    HookEvent,
    Note,
    ServerEntry,
    StyleEntry,
    entry_in,
    read_text,
)
from .matching import fits
from .tool_names import tools_but, tools_expression

__all__ = ["is_claude_plugin", "read_claude_plugin"]

MANIFEST = ".claude-plugin/plugin.json"
ABOUT = (
    "$schema",
    "author",
    "description",
    "displayName",
    "homepage",
    "keywords",
    "license",
    "name",
    "repository",
    "version",
)
PARTS = ("agents", "commands", "hooks", "mcpServers", "outputStyles", "skills")
UNSUPPORTED = {
    "channels": "channels",
    "dependencies": "plugins that it needs; add them yourself",
    "experimental": "experimental parts",
    "lspServers": "language servers",
    "monitors": "monitors",
    "settings": "settings",
    "themes": "themes",
    "userConfig": "values that it asks the user for",
}
"""Keys of the manifest that deep-folders knows and does not use."""
UNSUPPORTED_PATHS = {
    ".lsp.json": "language servers",
    "bin": "programs on the PATH",
    "monitors": "monitors",
    "settings.json": "settings",
    "themes": "themes",
    "workflows": "workflows",
}
TOOLS, NEVER = ("tools", "allowedtools"), ("disallowedtools",)
AGENT_FIELDS = ("color", "description", "name", *TOOLS, *NEVER)
AGENT_UNSUPPORTED = {"model": "it runs with its caller's model"}
COMMAND_UNSUPPORTED = {
    "allowed-tools": "it approves nothing; your policy decides",
    "model": "it runs with the chat's model",
}
"""Fields whose absence a person would notice, and what happens instead. Others are told as unsupported."""
COMMAND_FIELDS = ("argument-hint", "description", "hide-from-slash-command-tool", "disable-model-invocation", "name")
EVENTS = get_args(HookEvent)
NEVER_HAPPENS = {
    "PermissionRequest": "a person answers it, and no program",
    "Setup": "nothing here sets a project up",
}
"""Events of Claude Code that deep-folders knows and does not have."""
ASKS: tuple[HookEvent, ...] = ("PreToolUse", "PostToolUse", "UserPromptSubmit", "Stop", "SubagentStop")
"""Events about which a hook may ask the model."""
MOST_FILES = 500
"""Of agents, of commands, of output styles and of skills."""
DESCRIPTION_CHARS = 200
"""Of a subagent's type: every request carries it."""
AGENT_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,39}")
TIMEOUT, QUESTION_TIMEOUT = 600.0, 60.0
"""For a program, and the most for each; for a question that says nothing else."""


def is_claude_plugin(root: Path) -> bool:
    """Whether a folder has a part of a plugin where Claude Code looks for it."""
    places = (MANIFEST, "SKILL.md", "skills", "commands", "agents", "hooks/hooks.json", ".mcp.json", "output-styles")
    return any((root / place).exists() for place in places) or bool(_skills_below(root))


def read_claude_plugin(root: Path, data: Path, name: str = "") -> Folder:
    """Read a folder.

    Args:
        root: the folder, resolved.
        data: the folder for what its programs keep.
        name: of a folder without a manifest.

    Raises:
        OSError: the manifest cannot be read.
        ValueError: the manifest is not a JSON object, or the name is not usable.
    """
    return _Reader(root, data).read(name)


class _Reader:
    def __init__(self, root: Path, data: Path) -> None:
        self.root, self.data = root, data
        self.notes: list[Note] = []
        self.manifest: dict[str, Any] = {}
        self.skills: tuple[Path, ...] = ()

    def read(self, name: str) -> Folder:
        path = entry_in(self.root, MANIFEST)
        self.manifest = {} if path is None else load_object(path)
        name = text_of(self.manifest.get("name")) or name or self.root.name
        name = re.sub(r"[^a-z0-9.-]+", "-", name.casefold()).strip("-.")
        if not NAME.fullmatch(name):
            raise ValueError(f"{MANIFEST}: the name {name!r} is not 1 to 64 of a-z, 0-9, - and .")
        for key in self.manifest:
            if key in UNSUPPORTED:
                self._note("unsupported", f"{MANIFEST}: {key}", UNSUPPORTED[key])
            elif key not in (*ABOUT, *PARTS):
                self._note("ignored", f"{MANIFEST}: {key}", "unknown key")
        for place, what in UNSUPPORTED_PATHS.items():
            if (self.root / place).exists():
                self._note("unsupported", place, what)
        self.skills = self._skills()
        folder = Folder(
            name=name,
            format="claude-plugin",
            root=self.root,
            version=text_of(self.manifest.get("version")),
            description=text_of(self.manifest.get("description")),
            skills=self.skills,
            servers=self._servers(),
            agents=self._agents(),
            commands=self._commands(),
            hooks=self._hooks(),
            styles=self._styles(),
            data=self.data,
        )
        return replace(folder, notes=tuple(dict.fromkeys(self.notes)))

    def _note(self, kind: Any, what: str, why: str) -> None:
        self.notes.append(Note(kind, what, why))

    def _paths(self, key: str, given: object) -> Iterator[Path]:
        """Yield what the manifest names, or a default place: `./…` inside the folder."""
        for item in cast("list[object]", given) if isinstance(given, list) else [given]:
            text = str(item)
            if not isinstance(item, str) or (text != "." and not text.startswith("./")):
                self._note("invalid", f"{MANIFEST}: {key}", f"{text} does not begin with ./")
                continue
            try:
                path = entry_in(self.root, text)
            except ValueError as error:
                self._note("invalid", f"{MANIFEST}: {key}", str(error))
                continue
            if path is None:
                self._note("invalid", f"{MANIFEST}: {key}", f"{text} does not exist")
            else:
                yield path

    def _default(self, place: str) -> list[Path]:
        try:
            path = entry_in(self.root, place)
        except ValueError as error:
            self._note("invalid", place, str(error))
            return []
        return [] if path is None else [path]

    def _files(self, key: str, paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
        """Yield (name, file) for every Markdown file: below a folder `a:b` for `a/b.md`."""
        count = 0
        for path in paths:
            files = sorted(path.rglob("*.md")) if path.is_dir() else [path]
            for file in files:
                try:
                    inside = entry_in(self.root, str(file.relative_to(self.root)))
                except ValueError as error:
                    self._note("invalid", key, str(error))
                    continue
                if inside is None or not inside.is_file() or file.name == "README.md":
                    continue
                count += 1
                if count > MOST_FILES:
                    self._note("invalid", key, f"more than {MOST_FILES} files; the others are left out")
                    return
                relative = file.relative_to(path) if path.is_dir() else Path(file.name)
                yield ":".join(relative.with_suffix("").parts), inside

    def _read(self, file: Path) -> tuple[Mapping[str, Any], str] | None:
        try:
            return self._split(read_text(file))
        except (OSError, ValueError) as error:
            self._note("invalid", self._shown(file), str(error))
            return None

    def _split(self, text: str) -> tuple[Mapping[str, Any], str]:
        from deep_skills import read_frontmatter

        return read_frontmatter(self._filled(text))

    def _shown(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _filled(self, text: str) -> str:
        return fill_paths(text, self.root, self.data)

    # -- skills --------------------------------------------------------------------------------------------------------

    def _skills(self) -> tuple[Path, ...]:
        default = self._default("skills")
        named = list(self._paths("skills", self.manifest["skills"])) if "skills" in self.manifest else []
        found: list[Path] = []
        for path in (*default, *named):
            if (path / "SKILL.md").is_file():
                found.append(path)
            elif path.is_dir():
                found += _skills_below(path)
            else:
                self._note("invalid", f"{MANIFEST}: skills", f"{self._shown(path)} is not a folder")
        if not found and not default and "skills" not in self.manifest and (self.root / "SKILL.md").is_file():
            found = [self.root]
        if not found and not default and not self.manifest:
            found = _skills_below(self.root)
        return tuple(dict.fromkeys(found))[:MOST_FILES]

    # -- agents and commands -------------------------------------------------------------------------------------------

    def _agents(self) -> tuple[AgentEntry, ...]:
        paths = list(self._paths("agents", self.manifest["agents"])) if "agents" in self.manifest else []
        found: list[AgentEntry] = []
        fields: dict[str, list[str]] = {}
        for stem, file in self._files("agents", paths or self._default("agents")):
            read = self._read(file)
            if read is None:
                continue
            about, body = read
            name, where = text_of(about.get("name")) or stem, self._shown(file)
            description = text_of(about.get("description"))
            if not AGENT_NAME.fullmatch(name) or not description or not body:
                self._note(
                    "invalid", where, "an agent needs a name of letters, digits, _ and -, a description, and text"
                )
                continue
            if len(description) > DESCRIPTION_CHARS:
                description = description[: DESCRIPTION_CHARS - 1].rstrip() + "…"
            tools = self._tools(where, about)
            for key, value in about.items():
                if plain(key) not in AGENT_FIELDS and (key, value) != ("model", "inherit"):
                    fields.setdefault(key, []).append(name)
            found.append(AgentEntry(name, description, body, tools))
        for key, names in fields.items():
            why = AGENT_UNSUPPORTED.get(key, "no effect on a subagent here")
            self._note("unsupported", f"agents: {key} of {', '.join(names)}", why)
        return tuple(found)

    def _tools(self, where: str, about: Mapping[str, Any]) -> str | None:
        """Return the tools that an agent names: None for all, "" for none. What cannot be read is none, and noted."""
        tools: str | None = None
        for given, what in ((named(about, *TOOLS), "tools"), (named(about, *NEVER), "disallowedTools")):
            for value in given:
                words = words_of(value)
                if words is None:
                    self._note("invalid", f"{where}: {what}", "not a list of names, so it has no tools")
                    return ""
                found, unknown = tools_expression(words)
                if unknown:
                    self._note("unsupported", f"{where}: {what}", f"no such tool here: {', '.join(unknown)}")
                if what == "disallowedTools":
                    tools = tools_but(tools, found)
                elif tools is None:
                    tools = found
                elif found is not None:
                    tools = f"({tools}) & ({found})" if tools and found else ""
        return tools

    def _commands(self) -> tuple[CommandEntry, ...]:
        given = self.manifest.get("commands")
        found: list[CommandEntry] = []
        fields: dict[str, list[str]] = {}
        if isinstance(given, dict):
            sources = list(self._mapped_commands(cast("dict[str, Any]", given)))
        else:
            paths = list(self._paths("commands", given)) if given is not None else []
            sources = [
                (name, self._read(file)) for name, file in self._files("commands", paths or self._default("commands"))
            ]
        for name, read in sources:
            if read is None:
                continue
            about, body = read
            for key in about:
                if key not in COMMAND_FIELDS:
                    fields.setdefault(key, []).append(name)
            if re.search(r"!`[^`]+`", body):
                fields.setdefault("!`…`", []).append(name)
            description = text_of(about.get("description")) or body.partition("\n")[0].lstrip("# ")
            hint = about.get("argument-hint")
            usage = f"[{', '.join(map(str, cast('list[object]', hint)))}]" if isinstance(hint, list) else text_of(hint)
            found.append(CommandEntry(name, description[:DESCRIPTION_CHARS], usage, body))
        for key, names in fields.items():
            why = COMMAND_UNSUPPORTED.get(key, "no effect on a command here")
            if key == "!`…`":
                why = "not run beforehand; the model is told to run it, under your policy"
            self._note("unsupported", f"commands: {key} of {', '.join(names)}", why)
        return tuple(found)

    def _mapped_commands(self, given: Mapping[str, Any]) -> Iterator[tuple[str, tuple[Mapping[str, Any], str] | None]]:
        for name, entry in given.items():
            table = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
            read = None
            if isinstance(content := table.get("content"), str):
                try:
                    read = self._split(content)
                except ValueError as error:
                    self._note("invalid", f"{MANIFEST}: commands: {name}", str(error))
            elif "source" in table:
                read = next((self._read(path) for path in self._paths("commands", table["source"])), None)
            else:
                self._note("invalid", f"{MANIFEST}: commands: {name}", "it has neither source nor content")
            if read is not None:
                more = {
                    k: table[v]
                    for k, v in (("description", "description"), ("argument-hint", "argumentHint"))
                    if v in table
                }
                yield name, ({**read[0], **more}, read[1])

    def _styles(self) -> tuple[StyleEntry, ...]:
        key = "outputStyles"
        paths = list(self._paths(key, self.manifest[key])) if key in self.manifest else []
        found: list[StyleEntry] = []
        for stem, file in self._files(key, [*self._default("output-styles"), *paths]):
            if (read := self._read(file)) is not None:
                about, body = read
                always = next(iter(named(about, "forceforplugin")), False) in (True, "true")
                description = text_of(about.get("description"))[:DESCRIPTION_CHARS]
                found.append(StyleEntry(text_of(about.get("name")) or stem, description, body, always))
        return tuple(found)

    # -- programs ------------------------------------------------------------------------------------------------------

    def _tables(self, key: str, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield (where, table) for the default file and for what the manifest names, or holds itself."""
        given = self.manifest.get(key)
        paths = self._default(place)
        for item in cast("list[object]", given) if isinstance(given, list) else [given]:
            if isinstance(item, dict):
                yield f"{MANIFEST}: {key}", cast("dict[str, Any]", item)
            elif item is not None:
                paths += self._paths(key, item)
        for path in dict.fromkeys(paths):
            try:
                yield self._shown(path), load_object(path)
            except (OSError, ValueError) as error:
                self._note("invalid", self._shown(path), str(error))

    def _servers(self) -> tuple[ServerEntry, ...]:
        found: dict[str, ServerEntry] = {}
        for where, table in self._tables("mcpServers", ".mcp.json"):
            # Both forms are in use: the table of servers itself, and one below "mcpServers".
            servers = table.get("mcpServers", table)
            if not isinstance(servers, dict):
                self._note("invalid", where, '"mcpServers" is not a table')
                continue
            for name, entry in cast("dict[str, object]", servers).items():
                if not isinstance(entry, dict):
                    self._note("invalid", f"{where}: {name}", "it is not a table")
                    continue
                filled = cast("dict[str, Any]", _fill_in(cast("object", entry), self._filled))
                if "command" in filled:
                    env = filled.get("env")
                    filled["env"] = {**(cast("dict[str, Any]", env) if isinstance(env, dict) else {}), **self._places}
                found[name] = ServerEntry(name, filled, variables=True)
        return tuple(found.values())

    @property
    def _places(self) -> dict[str, str]:
        return {"CLAUDE_PLUGIN_ROOT": str(self.root), "CLAUDE_PLUGIN_DATA": str(self.data)}

    def _hooks(self) -> tuple[HookEntry, ...]:
        found: list[HookEntry] = []
        for where, table in self._tables("hooks", "hooks/hooks.json"):
            events = table.get("hooks", table)
            found += self._hooks_of(where, events)
        for skill in self.skills:
            file = skill / "SKILL.md"
            # Most have none, and the frontmatter of hundreds takes long to read.
            if file.is_file() and b"\nhooks:" in file.read_bytes() and (read := self._read(file)) is not None:
                hooks = self._hooks_of(self._shown(file), _typed(read[0].get("hooks", {})))
                found += (replace(hook, skill=skill) for hook in hooks)
        # Elsewhere `once` has no effect in Claude Code: a guard that says so guards on.
        found = [hook if hook.skill else replace(hook, once=False) for hook in found]
        return tuple(found)

    def _hooks_of(self, where: str, events: object) -> Iterator[HookEntry]:
        if not isinstance(events, dict):
            self._note("invalid", where, '"hooks" is not a table')
            return
        for event, groups in cast("dict[str, object]", events).items():
            if event in ("description", "$schema"):
                continue
            if event not in EVENTS:
                why = NEVER_HAPPENS.get(event, f"only {', '.join(EVENTS)} are")
                self._note("unsupported", f"{where}: {event}", why)
                continue
            for group in cast("list[object]", groups) if isinstance(groups, list) else [groups]:
                yield from self._hook_group(f"{where}: {event}", event, group)

    def _hook_group(self, where: str, event: Any, group: object) -> Iterator[HookEntry]:
        table = cast("dict[str, Any]", group) if isinstance(group, dict) else {}
        hooks = table.get("hooks")
        if not isinstance(hooks, list):
            self._note("invalid", where, 'it has no list "hooks"')
            return
        for hook in cast("list[object]", hooks):
            entry = cast("dict[str, Any]", hook) if isinstance(hook, dict) else {}
            kind, args, timeout = entry.get("type"), entry.get("args"), entry.get("timeout")
            if kind != "command" and not (kind == "prompt" and event in ASKS):
                self._note("unsupported", f"{where}: type {kind}", "only programs are, and some questions")
                continue
            if entry.get("shell") not in (None, "bash"):
                self._note("unsupported", f"{where}: shell {text_of(entry['shell'])}", "commands are bash's")
                continue
            text = entry.get(kind)
            if not isinstance(text, str) or not text.strip():
                self._note("invalid", where, f"a hook without a {kind}")
                continue
            matcher = str(table.get("matcher") or "")
            if event == "SessionStart" and not any(fits(matcher, source) for source in ("startup", "resume")):
                self._note("unsupported", f"{where}: {matcher}", "what hooks said stays after a compaction")
                continue
            seconds = QUESTION_TIMEOUT if kind == "prompt" else TIMEOUT
            if isinstance(timeout, int | float) and timeout > 0:
                seconds = min(float(timeout), TIMEOUT)
            yield HookEntry(
                event,
                matcher,
                "" if kind == "prompt" else text if args is None else self._filled(text),
                tuple(self._filled(str(arg)) for arg in cast("list[object]", args)) if isinstance(args, list) else None,
                seconds,
                text_of(entry.get("if")),
                background=entry.get("async") is True or entry.get("asyncRewake") is True,
                prompt=text if kind == "prompt" else "",
                wakes=entry.get("asyncRewake") is True,
                prefix=str(entry.get("rewakeMessage") or ""),
                once=entry.get("once") is True,
            )


def _skills_below(root: Path) -> list[Path]:
    return sorted(file.parent for file in root.glob("*/SKILL.md") if file.is_file())


def fill_paths(text: str, root: Path, data: Path) -> str:
    """Replace `${CLAUDE_PLUGIN_ROOT}` and `${CLAUDE_PLUGIN_DATA}`."""
    return text.replace("${CLAUDE_PLUGIN_ROOT}", str(root)).replace("${CLAUDE_PLUGIN_DATA}", str(data))


def _fill_in(value: object, fill: Any) -> object:
    if isinstance(value, str):
        return fill(value)
    if isinstance(value, list):
        return [_fill_in(item, fill) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _fill_in(item, fill) for key, item in cast("dict[str, object]", value).items()}
    return value


def _typed(value: object) -> object:
    """Return a value of a frontmatter, whose every scalar is text, as one of a JSON file."""
    if isinstance(value, dict):
        table = cast("dict[str, object]", value)
        return {key: item if key in ("command", "prompt") else _typed(item) for key, item in table.items()}
    if isinstance(value, list):
        return [_typed(item) for item in cast("list[object]", value)]
    if value in ("true", "false"):
        return value == "true"
    return float(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}(\.\d+)?", value) else value
