"""A kernel with the subagents plugin, tools that record their calls, and a session in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import deep_backends
import deep_subagents
import deep_todo
import pytest
from pydantic_ai import Agent

from deep_core import DeepAgentDeps, Kernel, create_default_deps
from tests.plugins_by_hand import Tools, plugin


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def tools() -> Tools:
    """`look` (read), `put` (write), and `run`, tagged execute, which asks of itself."""
    tools = Tools(id="things")
    tools.add("look", tags=["read"]).add("put", tags=["write"])
    return tools.add("run", tags=["execute"], requires_approval=True)


@pytest.fixture
def make_kernel(tools: Tools) -> Iterator[Callable[..., Kernel]]:
    made: list[Kernel] = []

    def make(*more: object, **how: Any) -> Kernel:
        things = plugin("things", toolsets=[tools.toolset])
        made.append(Kernel(plugins=[deep_subagents, deep_backends, deep_todo, things, *more], discover=False, **how))
        return made[-1]

    yield make
    for kernel in made:
        kernel.close()


@pytest.fixture
def kernel(make_kernel: Callable[..., Kernel]) -> Kernel:
    return make_kernel(strict=True)


@pytest.fixture
def make_agent(kernel: Kernel) -> Callable[..., Agent[Any, Any]]:
    def make(model: Any, **settings: Any) -> Agent[Any, Any]:
        return kernel.create_agent(model, **{"backend": "memory", **settings})

    return make


@pytest.fixture
def deps(kernel: Kernel) -> DeepAgentDeps[Any]:
    return create_default_deps(kernel=kernel)
