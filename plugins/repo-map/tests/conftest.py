"""Maps of small trees, in a memory backend and on disk."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pytest
from deep_backends import memory_backend
from deep_repo_map import RepoMapOptions
from deep_repo_map.operation import draw_map
from deep_repo_map.slot import Memory
from pydantic_ai.workspaces import Workspace

Draw: TypeAlias = Callable[..., Awaitable[str]]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def in_memory(files: Mapping[str, str | bytes]) -> Workspace:
    """A workspace in memory with these files."""
    workspace = Workspace(memory_backend())
    for path, content in files.items():
        await workspace.write_bytes(path, content.encode() if isinstance(content, str) else content)
    return workspace


@pytest.fixture
def draw() -> Draw:
    """`draw(files, path, focus=…, tokens=…, **options)`: a map of files in memory, or of a workspace."""

    async def drawn(
        files: Mapping[str, str | bytes] | Workspace,
        path: str = ".",
        *,
        focus: Sequence[str] = (),
        tokens: int = 1_000,
        memory: Memory | None = None,
        **options: Any,
    ) -> str:
        workspace = files if isinstance(files, Workspace) else await in_memory(files)
        return await draw_map(workspace, path, focus, tokens, memory or Memory(), RepoMapOptions(**options))

    return drawn
