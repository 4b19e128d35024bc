"""Commands that run no agent do not import Pydantic AI, which takes longer than all that they do. No seconds."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import anyio
import click
import pytest
from deep_cli.main import deep
from deep_sessions import SqliteStore, create
from deep_sessions.fold import Run
from pydantic_ai import DeferredToolRequests
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, UserPromptPart

from benchmarks.measure import variables
from tests.drawn import sample

RUN = """
import sys
from deep_cli.main import main
code = 0
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code or 0
print(code, *(name for name in ("pydantic_ai", "openai", "httpx") if name in sys.modules))
"""
CONVERSATION = """{"type": "user", "cwd": "/shop", "message": {"role": "user", "content": "Round the cents."}}
{"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "I do."}]}}
"""
OLD_CHAT = """{"format": 1, "model": "openai:x", "backend": "local", "folder": "/shop", "deps": "", "conversation": {
"usage": {"requests": 1}, "messages": [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Hi."}]},
{"kind": "response", "parts": [{"part_kind": "text", "content": "Hello."}]}]}}
"""
SHORT = [
    "config export --agent -",
    "config init",
    "config schema",
    "config show",
    "config trust",
    "doctor",
    "eval suites",
    "folders add ./kit -y",
    "folders list",
    "folders remove nosuch",
    "folders show nosuch",
    "folders update",
    "keys delete openai",
    "keys list",
    "mcp add notes -- notes-server",
    "mcp list",
    "mcp remove nosuch",
    "plugins list",
    "plugins restore",
    "plugins site nosuch",
    "plugins uninstall nosuch",
    "sessions delete nosuch",
    "sessions export stored",
    "sessions fork stored",
    "sessions import ./theirs",
    "sessions import-chats",
    "sessions list",
    "sessions rewind stored --to 1",
    "sessions search cents",
    "sessions show stored",
    "skills add ./kit --name kit-skills -y",
    "skills check ./kit/skills",
    "workers",
    "worktree diff nosuch",
    "worktree drop nosuch",
    "worktree list",
    "worktree merge nosuch",
]
OTHERS = {
    "run an agent, or make one to show it": [
        "acp",
        "call",
        "chat",
        "demo",
        "explain",
        "run",
        "sessions resume",
        "tools list",
        "tools why",
        "web",
        "worker",
    ],
    "try agents, and judge them": [
        "eval ablate",
        "eval compare",
        "eval harbor",
        "eval matrix",
        "eval record",
        "eval replay",
        "eval report",
        "eval run",
        "eval validate",
    ],
    "speak with servers or models as Pydantic AI does": [
        "mcp login",
        "mcp serve",
        "mcp test",
        "tools dispatch",
        "tools render",
    ],
    "list what Pydantic AI has": ["capabilities list"],
    "ask an index, or start other programs": [
        "plugins bisect",
        "plugins check",
        "plugins install",
        "plugins search",
        "plugins test-against",
    ],
    "ask for a key, or for each answer": ["keys set", "new"],
}


def leaves(command: click.Command, path: Sequence[str] = (), above: click.Context | None = None) -> Iterator[str]:
    """The commands of a group, and of the groups in it."""
    if not isinstance(command, click.Group):
        yield " ".join(path)
        return
    context = click.Context(command, info_name=path[-1] if path else "deep", parent=above)
    for name in command.list_commands(context):
        if (found := command.get_command(context, name)) is not None:
            yield from leaves(found, [*path, name], context)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a folder of Claude Code's layout, a configuration, and a stored session."""
    made = tmp_path_factory.mktemp("project")
    for path, text in [
        ("kit/.claude-plugin/plugin.json", '{"name": "kit"}'),
        ("kit/skills/tidy/SKILL.md", "---\nname: tidy\ndescription: Tidies.\n---\nTidy.\n"),
        ("theirs/1.jsonl", CONVERSATION),
        ("home/.local/share/deep/chats/shop-0/0123abcd.json", OLD_CHAT),
        ("deep.toml", "[agent]\nmodel = 'openai:x'\n"),
    ]:
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text, encoding="utf-8")
    subprocess.run(["git", "init", "--quiet"], cwd=made, check=True)
    store = made / "home/.local/share/deep/sessions.db"
    store.parent.mkdir(parents=True, exist_ok=True)
    anyio.run(_store_session, store)
    return made


async def _store_session(path: Path) -> None:
    """Store a session that waits for an answer to a call."""
    store, call = SqliteStore(path), ToolCallPart("edit", {"path": "money.py"}, "c1")
    run = Run("r1", status="paused", requests=DeferredToolRequests(approvals=[call]))
    messages = [ModelRequest([UserPromptPart("Round the cents.")]), ModelResponse([TextPart("I do."), call])]
    await create(store, "stored", messages, run=run)
    await store.aclose()


def test_every_command_is_short_or_says_why_not() -> None:
    short = {name for name in leaves(deep) if any(f"{line} ".startswith(f"{name} ") for line in SHORT)}
    long = {name for names in OTHERS.values() for name in names}
    assert len(short) == len(SHORT)
    assert short | long == {*leaves(deep)}
    assert not short & long


@pytest.mark.parametrize("line", sample(SHORT, *SHORT[::6], slow=SHORT))
def test_a_short_command_does_not_import_pydantic_ai(line: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN, *line.split()],
        cwd=folder,
        env=variables(folder / "home"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    code, *imported = done.stdout.splitlines()[-1].split()
    assert imported == []
    refused = any(word in line for word in ("nosuch", "init", "restore", "delete", "doctor"))
    assert (code != "0") == refused, done.stdout + done.stderr
