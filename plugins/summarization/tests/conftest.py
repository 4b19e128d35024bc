"""Agents with the plugin beside files, todos and backends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import deep_backends
import deep_filesystem
import deep_summarization
import deep_todo
import pytest
from pydantic_ai import Agent

from deep_core import Kernel


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    plugins = [deep_summarization, deep_filesystem, deep_todo, deep_backends]
    with Kernel(plugins=plugins, discover=False) as kernel:
        yield kernel


@pytest.fixture
def make_agent(kernel: Kernel) -> Callable[..., Agent[Any, Any]]:
    def make(model: Any, **settings: Any) -> Agent[Any, Any]:
        settings.setdefault("backend", "memory")
        return kernel.create_agent(model, **settings)

    return make
