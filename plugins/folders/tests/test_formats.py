"""What is read of each format, and that nothing without effect is dropped silently."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deep_folders import Folder
from deep_folders.reading import read_folder
from deep_folders.slash import commands_of, fill_in
from hypothesis import given, settings
from hypothesis import strategies as st

from .layouts import LAYOUTS, SCHEMA, skill, write


def read(root: Path, files: Any) -> Folder:
    return read_folder(write(root, files).resolve(), root.parent / "data")


def notes(folder: Folder) -> dict[str, str]:
    return {f"{note.kind} {note.what}": note.why for note in folder.notes}


def test_a_folder_in_both_formats_is_read_as_the_one_that_can_hold_more(tmp_path: Path) -> None:
    manifest = {"$schema": f"{SCHEMA}/plugin.schema.json", "name": "both", "version": "1.0.0", "description": "Both."}
    files = {"plugin.json": manifest, "commands/a.md": "A.\n", "skills/a/SKILL.md": skill("a")}
    one = read(tmp_path / "one", files)
    both = read(tmp_path / "both", {**files, ".claude-plugin/plugin.json": {"name": "both"}})
    assert (one.format, one.counts) == ("agent-plugin", "1 skill")
    assert (both.format, both.counts) == ("claude-plugin", "1 skill, 1 command")


# -- plugins of Claude Code --------------------------------------------------------------------------------------------


def test_five_layouts_of_claude_code_load_with_what_is_unsupported_listed(tmp_path: Path) -> None:
    found = {name: read(tmp_path / name, files) for name, files in LAYOUTS.items()}
    assert {name: folder.counts for name, folder in found.items()} == {
        "methods": "2 skills, 1 subagent type, 1 command, 1 hook",
        "features": "2 subagent types, 1 command",
        "guard": "2 hooks",
        "docs-server": "2 MCP servers",
        "loop": "3 commands, 1 hook, 1 output style",
    }
    assert {name: sorted(notes(folder)) for name, folder in found.items()} == {
        "methods": [],
        "features": [
            "invalid agents/nameless.md",
            "unsupported agents/explorer.md: tools",
            "unsupported agents: model of architect, explorer",
            "unsupported commands: !`…` of build",
            "unsupported commands: allowed-tools of build",
        ],
        "guard": ["unsupported hooks/hooks.json: Stop: type agent"],
        "docs-server": [],
        "loop": [
            "ignored .claude-plugin/plugin.json: sponsor",
            "invalid .claude-plugin/plugin.json: mcpServers",
            "unsupported .claude-plugin/plugin.json: lspServers",
            "unsupported .claude-plugin/plugin.json: userConfig",
            "unsupported .lsp.json",
        ],
    }
    explorer = next(agent for agent in found["features"].agents if agent.name == "explorer")
    names = ["glob", "grep", "ls", "read_file", "fetch", "write_todos", "stop_command"]
    assert explorer.tools == " | ".join(f"name:{name}" for name in names)
    assert "NotebookRead" in notes(found["features"])["unsupported agents/explorer.md: tools"]
    (reviewer,) = found["methods"].agents
    assert reviewer.description.startswith("Use this agent when a step is done. Examples:")  # which is no YAML
    docs, remote = found["docs-server"].servers
    assert docs.table["args"][2] == f"{tmp_path.resolve()}/docs-server/index"
    assert remote.table["headers"] == {"Authorization": "Bearer ${ACME_KEY}"}  # deep-mcp-client reads the environment


@pytest.mark.parametrize("about", ["Reviews.", 'Use it so: user: "review"', "@x: y", "it's: so", "a\tb: c"])
@pytest.mark.parametrize(
    ("fields", "tools"),
    [
        ("tools: Read, Grep", "name:read_file | name:grep"),
        ("tools: Read Grep", "name:read_file | name:grep"),
        ("tools: [\n  Read,\n  Grep, # both\n]", "name:read_file | name:grep"),
        ("tools:\n- Read # one\n- Grep", "name:read_file | name:grep"),
        ("tools: Bash(git add:*) Read", "name:execute | name:read_file"),
        ("tools: ['Bash(echo (x) y)', 'Read(']", "name:execute | name:read_file"),
        ("tools: All tools", None),
        ("tools: All tools but Bash", ""),
        ("tools:", ""),
        ("disallowedTools: Write Bash", "~(name:write_file | name:execute)"),
        ('disallowedTools: ["Write", "Bash(rm *)"]', "~(name:write_file | name:execute)"),
    ],
)
@pytest.mark.parametrize("is_first", [True, False])
def test_an_agents_tools_are_read_whatever_its_description_is(
    tmp_path: Path, fields: str, tools: str | None, about: str, is_first: bool
) -> None:
    lines = [fields, f"description: {about}"] if is_first else [f"description: {about}", fields]
    text = "\n".join(["---", "name: a", *lines, "---", "Review.", ""])
    [agent] = read(tmp_path / "p", {".claude-plugin/plugin.json": {"name": "p"}, "agents/a.md": text}).agents
    assert (agent.tools, agent.description) == (tools, " ".join(about.split()))


def test_a_root_skill_is_one_skill_and_a_manifest_is_optional(tmp_path: Path) -> None:
    folder = read(tmp_path / "My Skill", {"SKILL.md": skill("my-skill"), "scripts/run.sh": "#!/bin/sh\n"})
    assert (folder.name, folder.format, folder.skills) == ("my-skill", "claude-plugin", (folder.root,))
    assert read(tmp_path / "x", {"SKILL.md": skill("x"), "skills/y/SKILL.md": skill("y")}).skills[0].name == "y"


def test_a_folder_that_leads_out_of_itself_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "out", {"secret.md": "---\ndescription: secret\n---\nsecret\n", "SKILL.md": skill("out")})
    root = write(tmp_path / "in", {"commands/fine.md": "Fine.\n", ".claude-plugin/plugin.json": {"skills": "../out"}})
    (root / "commands" / "link.md").symlink_to(tmp_path / "out" / "secret.md")
    (root / "agents").symlink_to(tmp_path / "out")
    folder = read_folder(root.resolve(), tmp_path / "data")
    assert [command.name for command in folder.commands] == ["fine"]
    assert (folder.agents, folder.skills) == ((), ())
    assert sorted(notes(folder)) == [
        "invalid .claude-plugin/plugin.json: skills",
        "invalid agents",
        "invalid commands",
    ]


@pytest.mark.parametrize("content", ["[]", "{", '{"name": "-"}'])
def test_a_wrong_manifest_is_an_error(tmp_path: Path, content: str) -> None:
    with pytest.raises(ValueError, match=r"plugin\.json"):
        read(tmp_path / "wrong", {".claude-plugin/plugin.json": content, "skills/a/SKILL.md": skill("a")})


def test_wrong_values_in_a_manifest_cost_themselves(tmp_path: Path) -> None:
    wrong = {"name": "wrong", "skills": [1], "hooks": [{"hooks": 5}, {"PreToolUse": [{}]}], "mcpServers": {"a": 1}}
    folder = read(tmp_path / "wrong", {".claude-plugin/plugin.json": wrong, "skills/a/SKILL.md": skill("a")})
    assert [path.name for path in folder.skills] == ["a"]
    assert len(folder.notes) == 4
    assert all(note.kind == "invalid" for note in folder.notes)


def test_a_command_is_filled_in_with_what_was_typed(tmp_path: Path) -> None:
    folders = tuple(read(tmp_path / name, LAYOUTS[name]) for name in ("features", "loop"))
    commands = {command.name: command for command in commands_of(folders)}
    assert list(commands) == ["features:build", "loop:git:commit", "loop:start", "loop:extra"]
    assert commands["features:build"].render('"big thing" now') == (
        "# Build\n\nState: (first run `git status --short`, and use what it prints)\n\n"
        'Feature: big thing of "big thing" now'
    )
    assert commands["loop:extra"].render("it's $ARGUMENTS !`rm`") == "Extra: it's"
    assert commands["loop:git:commit"].render("fast") == "Commit what is staged.\n\nARGUMENTS: fast"
    assert commands["loop:git:commit"].render("") == "Commit what is staged."
    assert (commands["features:build"].usage, commands["loop:start"].about) == (
        "Optional feature description",
        "Start the loop",
    )


@given(st.text(max_size=40))
@settings(max_examples=60, deadline=None)
def test_what_was_typed_is_never_taken_for_a_part_of_the_command(arguments: str) -> None:
    assert fill_in("<$ARGUMENTS>", arguments) == f"<{arguments}>"


# -- Agent Plugins -----------------------------------------------------------------------------------------------------

PLUGIN = {"plugin.json": {"$schema": f"{SCHEMA}/plugin.schema.json", "name": "acme.tools", "extra": 1}}


def with_servers(servers: Any, version: str = "1.0.0") -> dict[str, Any]:
    schema = f"https://agent-plugins.org/schemas/{version}/mcp.schema.json"
    return {**PLUGIN, "mcp.json": {"$schema": schema, "mcpServers": servers}, "bin/serve": "#!/bin/sh\n"}


GOOD_SERVERS = {
    "local": {"type": "stdio", "command": "./bin/serve", "args": ["${PLUGIN_DATA}/x", "${HOME}"], "cwd": "./bin"},
    "bare": {"type": "stdio", "command": "npx", "env": {"CONFIG": "${PLUGIN_ROOT}/c"}},
    "remote": {"type": "streamable-http", "url": "https://example.com/mcp", "headers": {"X-A": "${PLUGIN_ROOT}"}},
    "here": {"type": "sse", "url": "http://127.0.0.1:80/sse"},
}
BAD_SERVERS: dict[str, Any] = {
    "no type": {"command": "npx"},
    "http": {"type": "http", "url": "https://example.com"},
    "plain": {"type": "streamable-http", "url": "http://example.com"},
    "user": {"type": "sse", "url": "https://a:b@example.com"},
    "fragment": {"type": "sse", "url": "https://example.com/#x"},
    "up": {"type": "stdio", "command": "./../bin/serve"},
    "absolute": {"type": "stdio", "command": "/bin/sh"},
    "placeholder": {"type": "stdio", "command": "${PLUGIN_ROOT}/bin/serve"},
    "cwd": {"type": "stdio", "command": "npx", "cwd": "${PLUGIN_DATA}/../.."},
    "cwd2": {"type": "stdio", "command": "npx", "cwd": "data"},
    "reserved": {"type": "stdio", "command": "npx", "env": {"PLUGIN_ROOT": "/"}},
    "mixed": {"type": "stdio", "command": "npx", "url": "https://example.com"},
    "header": {"type": "sse", "url": "https://example.com", "headers": {"A": "1", "a": "2"}},
    "crlf": {"type": "sse", "url": "https://example.com", "headers": {"A": "1\r\nB: 2"}},
    "list": [],
}


def test_servers_follow_the_rules_of_the_format_and_a_bad_one_costs_itself(tmp_path: Path) -> None:
    folder = read(tmp_path / "p", with_servers({**BAD_SERVERS, **GOOD_SERVERS}))
    root = folder.root
    found = {server.name: server.table for server in folder.servers}
    assert found.keys() == GOOD_SERVERS.keys()
    assert sorted(notes(folder)) == sorted(
        ["ignored plugin.json: extra", *(f"invalid mcp.json: server {name}" for name in BAD_SERVERS)]
    )
    local = found["local"]
    assert (local["command"], local["cwd"]) == (str(root / "bin" / "serve"), str(root / "bin"))
    assert local["args"] == [f"{folder.data}/x", "${HOME}"]  # only the two placeholders of the format
    assert found["bare"]["cwd"] == str(root)
    assert found["bare"]["env"] == {"CONFIG": f"{root}/c", "PLUGIN_ROOT": str(root), "PLUGIN_DATA": str(folder.data)}
    assert found["remote"]["headers"] == {"X-A": "${PLUGIN_ROOT}"}


def test_what_is_wrong_with_the_servers_leaves_the_skills(tmp_path: Path) -> None:
    files = {
        **with_servers({}, version="1.1.0"),
        "skills/ports/SKILL.md": skill("ports"),
        "skills/a/b/SKILL.md": skill("b"),
    }
    folder = read(tmp_path / "p", files)
    assert [path.name for path in folder.skills] == ["ports"]  # only one level below `skills`
    assert "1.1.0" in notes(folder)["invalid mcp.json"]


@pytest.mark.parametrize(
    "change",
    [
        {"$schema": "https://agent-plugins.org/schemas/2.0.0/plugin.schema.json"},
        {"name": "Acme"},
        {"name": "a--b"},
        {"version": 1},
        {"author": {"name": "A", "phone": "1"}},
        {"keywords": "a"},
        {"extensions": {"com.example": 1}},
    ],
    ids=str,
)
def test_a_manifest_of_another_version_or_shape_is_refused(tmp_path: Path, change: dict[str, Any]) -> None:
    manifest = {**PLUGIN["plugin.json"], **change}
    with pytest.raises(ValueError, match=r"plugin\.json"):
        read(tmp_path / "p", {"plugin.json": manifest})


@pytest.mark.parametrize(
    ("said", "seconds"), [(None, 600), (5, 5), (0.5, 0.5), (600, 600), (5_000, 600), (0, 600), ("9", 600)]
)
def test_a_hook_has_ten_minutes_or_what_the_folder_says_and_a_question_one(
    tmp_path: Path, said: Any, seconds: float
) -> None:
    hook = {"type": "command", "command": "true"} | ({} if said is None else {"timeout": said})
    question = {"type": "prompt", "prompt": "Is it done?"}
    files = {"hooks/hooks.json": {"hooks": {"PreToolUse": [{"hooks": [hook, question]}]}}}
    [found, asked] = read(tmp_path / "p", files | {".claude-plugin/plugin.json": {"name": "p"}}).hooks
    assert (found.timeout, asked.timeout) == (seconds, 60)


def test_a_command_of_another_shell_is_left_out_and_noted(tmp_path: Path) -> None:
    hooks = [{"type": "command", "command": "true", "shell": shell} for shell in ("bash", "powershell")]
    folder = read(tmp_path / "p", {"hooks/hooks.json": {"hooks": {"Stop": [{"hooks": hooks}]}}})
    assert len(folder.hooks) == 1
    assert [note.what for note in folder.notes] == ["hooks/hooks.json: Stop: shell powershell"]
