"""Servers that people use, from npm and PyPI: each lists, is called and ends, and providers take its schemas."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pydantic_ai import Agent, ExternalToolset, ToolDefinition

from plugins.mcp.tests.conftest import Play
from plugins.sessions.tests.test_door_fuzz import models
from tests.local_wheels import made_once
from tests.npm import install

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive, pytest.mark.needs("npm")]


class Real(NamedTuple):
    """A server: its package, its program, and what it needs to start.

    Attributes:
        package: `name@version` of npm, or `name==version` of PyPI.
        program: in the package.
        args: of the program; `{folder}` is one of the test's own, with a file, `{repository}` one with git.
        env: of the program.
        call: a call that needs no network.
    """

    package: str
    program: str
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    call: tuple[str, dict[str, Any]] | None = None


THOUGHT = {"thought": "a", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}
OFFICIAL = "@modelcontextprotocol/server"
REAL = {
    "everything": Real(
        f"{OFFICIAL}-everything@2026.8.31", "mcp-server-everything", ("stdio",), (), ("echo", {"message": "a"})
    ),
    "files": Real(
        f"{OFFICIAL}-filesystem@2026.8.31", "mcp-server-filesystem", ("{folder}",), (), ("list_allowed_directories", {})
    ),
    "memory": Real(
        f"{OFFICIAL}-memory@2026.8.31",
        "mcp-server-memory",
        (),
        ("MEMORY_FILE_PATH={folder}/graph",),
        ("read_graph", {}),
    ),
    "thinking": Real(
        f"{OFFICIAL}-sequential-thinking@2026.8.31",
        "mcp-server-sequential-thinking",
        call=("sequentialthinking", THOUGHT),
    ),
    "github": Real(f"{OFFICIAL}-github@2025.4.8", "mcp-server-github", env=("GITHUB_PERSONAL_ACCESS_TOKEN=none",)),
    "slack": Real(
        f"{OFFICIAL}-slack@2025.4.25", "mcp-server-slack", env=("SLACK_BOT_TOKEN=none", "SLACK_TEAM_ID=none")
    ),
    "brave": Real(f"{OFFICIAL}-brave-search@0.6.2", "mcp-server-brave-search", env=("BRAVE_API_KEY=none",)),
    "gitlab": Real(f"{OFFICIAL}-gitlab@2025.4.25", "mcp-server-gitlab", env=("GITLAB_PERSONAL_ACCESS_TOKEN=none",)),
    "maps": Real(f"{OFFICIAL}-google-maps@0.6.2", "mcp-server-google-maps", env=("GOOGLE_MAPS_API_KEY=none",)),
    "bank": Real(
        "@allpepper/memory-bank-mcp@0.2.2",
        "mcp-server-memory-bank",
        (),
        ("MEMORY_BANK_ROOT={folder}",),
        ("list_projects", {}),
    ),
    "runner": Real("mcp-server-code-runner@0.1.8", "mcp-server-code-runner"),
    "chart": Real("@antv/mcp-server-chart@0.9.10", "mcp-server-chart"),
    "tavily": Real("tavily-mcp@0.2.22", "tavily-mcp", env=("TAVILY_API_KEY=none",)),
    "notion": Real("@notionhq/notion-mcp-server@2.5.2", "notion-mcp-server", env=("NOTION_TOKEN=none",)),
    "context7": Real("@upstash/context7-mcp@4.1.1", "context7-mcp"),
    "playwright": Real("@playwright/mcp@0.0.83", "playwright-mcp"),
    "gitlabs": Real("@zereight/mcp-gitlab@2.1.64", "mcp-gitlab", env=("GITLAB_PERSONAL_ACCESS_TOKEN=none",)),
    "devtools": Real("chrome-devtools-mcp@1.11.0", "chrome-devtools-mcp", ("--no-usage-statistics",)),
    "time": Real(
        "mcp-server-time==2026.10.19",
        "mcp-server-time",
        ("--local-timezone", "UTC"),
        (),
        ("get_current_time", {"timezone": "UTC"}),
    ),
    "git": Real(
        "mcp-server-git==2026.10.19",
        "mcp-server-git",
        ("--repository", "{repository}"),
        (),
        ("git_status", {"repo_path": "{repository}"}),
    ),
    "fetch": Real("mcp-server-fetch==2026.10.24", "mcp-server-fetch"),
    "word": Real(
        "office-word-mcp-server==1.1.11",
        "word_mcp_server",
        call=("list_available_documents", {"directory": "{folder}"}),
    ),
    "excel": Real(
        "excel-mcp-server==2.2.2",
        "excel-mcp-server",
        ("stdio",),
        (),
        ("create_workbook", {"path": "{folder}/a.xlsx"}),
    ),
    "sqlite": Real(
        "mcp-server-sqlite==2025.4.25", "mcp-server-sqlite", ("--db-path", "{folder}/data"), (), ("list_tables", {})
    ),
    "chroma": Real(
        "chroma-mcp==0.2.6", "chroma-mcp", ("--client-type", "ephemeral"), (), ("chroma_list_collections", {})
    ),
}
"""Those without a call need a key or a network for all they do."""
OLD = ("chroma", "sqlite")
"""Of an SDK before 2, which chroma-mcp pins: they end at a question that they do not know."""
OF_PYPI = [name for name, real in REAL.items() if "==" in real.package]


def environment(factory: pytest.TempPathFactory, packages: Iterable[str], name: str) -> Path:
    """Install packages of PyPI into an environment of their own, and return it. Skip without the index."""

    def make(folder: Path) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        done = subprocess.run(
            [folder / "bin" / "pip", "install", "-q", *packages], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            pytest.skip(f"needs PyPI: pip install {' '.join(packages)}: {done.stderr[-200:]}")

    return made_once(factory, name, make)


@pytest.fixture
def commands(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[str]]:
    """What starts a server."""
    of_npm = install(tmp_path_factory, *(real.package for name, real in REAL.items() if name not in OF_PYPI)) / ".bin"
    new = environment(tmp_path_factory, [REAL[name].package for name in OF_PYPI if name not in OLD], "mcp-servers")
    old = environment(tmp_path_factory, [*(REAL[name].package for name in OLD), "pydantic<2.12"], "mcp-old-servers")

    def command(name: str) -> list[str]:
        program = REAL[name].program
        if name not in OF_PYPI:
            return [str(of_npm / program)]
        programs = (old if name in OLD else new) / "bin"
        return [str(programs / "python"), str(programs / program)]  # its first line names the folder before the rename

    return command


def test_there_are_twenty() -> None:
    assert len(REAL) >= 20


async def test_real_servers_list_are_called_end_and_suit_providers(
    commands: Callable[[str], list[str]], tmp_path: Path, make_kernel: Any, play: Play
) -> None:
    folder, repository = tmp_path / "folder", tmp_path / "repository"
    folder.mkdir()
    subprocess.run(["git", "init", "-q", str(repository)], check=True)

    def filled(text: str) -> str:
        return text.replace("{folder}", str(folder)).replace("{repository}", str(repository))

    servers = {
        name: {
            "command": commands(name)[0],
            "args": [*commands(name)[1:], *map(filled, real.args)],
            "env": dict(filled(pair).split("=", 1) for pair in real.env),
        }
        for name, real in REAL.items()
    }
    limits = {"start_timeout": 600, "wait": 600, "call_timeout": 300}
    limits |= {"tool_tokens": 1_000_000, "defer_above": 1_000}  # none is searched first
    kernel = make_kernel(servers, settings={"require_approval": False}, **limits)
    calls = [
        (
            f"{name}_{real.call[0]}",
            {key: filled(value) if isinstance(value, str) else value for key, value in real.call[1].items()},
        )
        for name, real in REAL.items()
        if real.call is not None
    ]
    caller, results = await play(kernel, *calls)
    tools = {name: tool for name, tool in caller.tools.items() if name.partition("_")[0] in REAL}
    assert {name.partition("_")[0] for name in tools} == {*REAL}
    assert [result for result in results if not result.startswith("success: ")] == []

    print(f"\n{len(REAL)} servers, {len(tools)} tools")
    assert len(tools) >= 400
    faults: list[BaseException] = []
    offered = [
        ToolDefinition(name=t.name, parameters_json_schema=t.parameters_json_schema, description=t.description)
        for t in tools.values()
    ]
    for provider, model in models(faults).items():
        agent = Agent(model, toolsets=[ExternalToolset(offered)], output_type=[str])
        result = await agent.run("hi")
        assert (provider, result.output, faults) == (provider, "fine", [])
