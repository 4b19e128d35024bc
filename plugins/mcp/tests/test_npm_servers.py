"""The reference servers of the protocol, from npm: what people have in their `.mcp.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from plugins.mcp.tests.conftest import Play
from tests.npm import install

pytestmark = [pytest.mark.anyio, pytest.mark.exhaustive, pytest.mark.needs("npm")]
VERSION = "2026.8.31"
PACKAGES = [f"@modelcontextprotocol/server-{name}@{VERSION}" for name in ("everything", "filesystem", "memory")]


@pytest.fixture
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the servers' programs."""
    return install(tmp_path_factory, *PACKAGES) / ".bin"


async def test_the_reference_servers_of_npm(programs: Path, tmp_path: Path, make_kernel: Any, play: Play) -> None:
    shared, graph = tmp_path / "shared", tmp_path / "graph.json"
    shared.mkdir()
    (shared / "a.txt").write_text("high tide")

    def server(name: str, *args: str, **more: Any) -> dict[str, Any]:
        return {"command": str(programs / f"mcp-server-{name}"), "args": [*args], **more}

    kernel = make_kernel(
        {
            "everything": server("everything", "stdio"),
            "files": server("filesystem", str(shared)),
            "memory": server("memory", env={"MEMORY_FILE_PATH": str(graph)}),
        },
        start_timeout=120,
        trust_annotations=True,
    )
    read = ("files_read_text_file", {"path": str(shared / "a.txt")})
    caller, results = await play(kernel, read, ("everything_echo", {"message": "hi"}))
    assert {name.partition("_")[0] for name in caller.tools} >= {"everything", "files", "memory"}
    assert results[0] == "success: high tide"
    assert results[1] == "success: Echo: hi"

    # What a server says that it destroys asks, and runs once it is allowed.
    entity = {"name": "Oslo", "entityType": "city", "observations": ["it rains"]}
    write, delete = (
        ("memory_create_entities", {"entities": [entity]}),
        ("memory_delete_entities", {"entityNames": ["Oslo"]}),
    )
    assert (await play(kernel, write, delete))[1] == ["asks: memory_delete_entities"]
    assert "it rains" in graph.read_text()
    _, results = await play(kernel, ("memory_search_nodes", {"query": "rains"}), delete, interrupt_on=False)
    assert "Oslo" in results[0]
    assert "it rains" not in graph.read_text()

    # It refuses what is outside its folder, which is a result like another.
    _, results = await play(kernel, ("files_read_text_file", {"path": str(tmp_path / "b.txt")}))
    assert "outside allowed directories" in results[0]
