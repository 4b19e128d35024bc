"""Folders as their authors publish them: the layouts of five much used plugins of Claude Code, written anew."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SCHEMA = "https://agent-plugins.org/schemas/1.0.0"


def write(root: Path, files: Mapping[str, Any]) -> Path:
    """Write files below a folder: text, or JSON of anything else; a text that begins with #! is a program."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        if text.startswith("#!"):
            path.chmod(0o755)
    return root


def skill(name: str, body: str = "Do it well.", description: str = "Use it before a task of its kind.") -> str:
    return f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"


# Like obra/superpowers: many skills, an agent, old commands, and a hook at the start of a session.
METHODS: Mapping[str, Any] = {
    ".claude-plugin/plugin.json": {
        "name": "methods",
        "version": "4.1.0",
        "description": "Ways of working: tests first, debugging, plans.",
        "author": {"name": "Ada", "email": "ada@example.com"},
        "keywords": ["skills"],
    },
    "skills/tests-first/SKILL.md": skill("tests-first", "Read ${CLAUDE_PLUGIN_ROOT}/skills/tests-first/why.md first."),
    "skills/tests-first/why.md": "A test that never failed proves nothing.\n",
    "skills/debugging/SKILL.md": skill("debugging"),
    "skills/README.md": "Not a skill.\n",
    "agents/reviewer.md": (
        "---\nname: reviewer\n"
        'description: Use this agent when a step is done. Examples: <example>user: "It is done: look"</example>\n'
        "model: inherit\n---\nReview the work against the plan.\n"
    ),
    "commands/plan.md": "---\ndescription: Write a plan\n---\nWrite a plan for: $ARGUMENTS\n",
    "hooks/hooks.json": {
        "hooks": {
            "SessionStart": [
                {
                    "matcher": "startup|clear",
                    "hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}/hooks/start.sh"'}],
                }
            ]
        }
    },
    "hooks/start.sh": "#!/bin/sh\necho '{}'\n",
}

# Like feature-dev and the review toolkits: one long command and agents with tools, models and colors.
FEATURES: Mapping[str, Any] = {
    ".claude-plugin/plugin.json": {"name": "features", "author": {"name": "Ada"}},
    "commands/build.md": (
        "---\ndescription: Build a feature in phases\nargument-hint: Optional feature description\n"
        "allowed-tools: Bash(git log:*), Read\n---\n# Build\n\nState: !`git status --short`\n\n"
        "Feature: $1 of $ARGUMENTS\n"
    ),
    "agents/explorer.md": (
        "---\nname: explorer\ndescription: Traces how a feature works\n"
        "tools: Glob, Grep, LS, Read, NotebookRead, WebFetch, TodoWrite, KillShell\nmodel: sonnet\ncolor: yellow\n---\n"
        "Trace the code.\n"
    ),
    "agents/architect.md": (
        "---\nname: architect\ndescription: Designs a feature\ntools: [Read, Bash]\nmodel: opus\ncolor: green\n---\n"
        "Design it.\n"
    ),
    "agents/nameless.md": "---\nname: two words\n---\nNo description.\n",
}

# Like security-guidance and hookify: programs around calls of tools.
GUARD: Mapping[str, Any] = {
    ".claude-plugin/plugin.json": {"name": "guard", "version": "1.0.0", "description": "Warns of unsafe changes."},
    "hooks/hooks.json": {
        "description": "Checks of changes",
        "hooks": {
            "PreToolUse": [
                {
                    "matcher": "Edit|Write|MultiEdit",
                    "hooks": [{"type": "command", "command": '"${CLAUDE_PLUGIN_ROOT}"/hooks/check.sh', "timeout": 30}],
                }
            ],
            "PostToolUse": [
                {"matcher": "Write", "hooks": [{"type": "command", "command": 'cat > "$CLAUDE_PLUGIN_DATA/after"'}]}
            ],
            "Stop": [{"hooks": [{"type": "agent", "prompt": "Is it done?"}]}],
        },
    },
    # It reads the call on stdin, as Claude Code writes it.
    "hooks/check.sh": (
        "#!/bin/sh\ncall=$(cat)\ncase $call in\n"
        '*\'"file_path": "\'*/secret.txt*) echo "no secrets: $CLAUDE_PROJECT_DIR" >&2; exit 2;;\n'
        '*ask.txt*) echo \'{"hookSpecificOutput": {"permissionDecision": "ask", '
        '"permissionDecisionReason": "sure?"}}\';;\n'
        '*change.txt*) echo \'{"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {}}}\';;\n'
        '*warn.txt*) echo "something" >&2; exit 1;;\n'
        '*slow.txt*) sleep 600;;\n*) echo \'{"decision": "approve"}\';;\nesac\n'
    ),
}

# Like context7, playwright and github: servers only, in the form without "mcpServers".
DOCS_SERVER: Mapping[str, Any] = {
    ".claude-plugin/plugin.json": {"name": "docs-server", "description": "Documentation of libraries."},
    ".mcp.json": {
        "docs": {"command": "npx", "args": ["-y", "@example/docs-mcp", "${CLAUDE_PLUGIN_ROOT}/index"]},
        "remote": {
            "type": "http",
            "url": "https://mcp.example.com/",
            "headers": {"Authorization": "Bearer ${ACME_KEY}"},
        },
    },
}

# Like ralph-loop, and like the language servers: a loop by a Stop hook, commands below a folder, other parts.
LOOP: Mapping[str, Any] = {
    ".claude-plugin/plugin.json": {
        "name": "loop",
        "commands": ["./commands", "./more/extra.md"],
        "outputStyles": "./styles",
        "lspServers": {"py": {"command": "pyright-langserver"}},
        "userConfig": {"key": {"type": "string"}},
        "mcpServers": "./../outside.json",
        "sponsor": "https://example.com",
    },
    "commands/start.md": '---\ndescription: "Start the loop"\nhide-from-slash-command-tool: "true"\n---\nLoop.\n',
    "commands/git/commit.md": "Commit what is staged.\n",
    "more/extra.md": "Extra: $ARGUMENTS[0]\n",
    "styles/terse.md": "---\nname: Terse\ndescription: Few words\n---\nBe terse.\n",
    "hooks/hooks.json": {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "stop.sh"}]}]}},
    ".lsp.json": {},
}

LAYOUTS = {"methods": METHODS, "features": FEATURES, "guard": GUARD, "docs-server": DOCS_SERVER, "loop": LOOP}
