"""Universes are ordinary objects: every test makes its own. And an agent whose tools write down that they ran."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import deep_backends
import deep_filesystem
import deep_todo
import pytest
from pydantic_ai import Agent

from deep_core import Kernel
from tests.plugins_by_hand import Tools, plugin, scripted


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def things() -> Tools:
    """`look` (read), `put` (write), `send` (network), and `burn`, which asks by itself."""
    tools = Tools(id="things")
    tools.add("look", tags=["read"]).add("put", tags=["write"]).add("send", tags=["read", "network"])
    return tools.add("burn", tags=["destructive"], requires_approval=True)


@pytest.fixture
def make_agent(things: Tools) -> Iterator[Callable[..., Agent[Any, Any]]]:
    made: list[Kernel] = []

    def make(*more: object, model: Any = None, config: Any = None, **how: Any) -> Agent[Any, Any]:
        own = plugin("things", toolsets=[things.toolset])
        plugins = [deep_backends, deep_filesystem, deep_todo, own, *more]
        made.append(Kernel(plugins=plugins, discover=False, config=config))
        return made[-1].create_agent(model or scripted(), **{"backend": "memory", **how})

    yield make
    for kernel in made:
        kernel.close()
