"""Agents with the todo plugin, and a memory backend that no test writes to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import deep_backends
import deep_todo
import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ToolReturnPart

from deep_core import Kernel


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def kernel() -> Iterator[Kernel]:
    with Kernel(plugins=[deep_todo, deep_backends], discover=False, strict=True) as kernel:
        yield kernel


@pytest.fixture
def make_agent(kernel: Kernel) -> Callable[..., Agent[Any, Any]]:
    def make(model: Any, **settings: Any) -> Agent[Any, Any]:
        return kernel.create_agent(model, backend="memory", **settings)

    return make


def returns(messages: list[ModelMessage]) -> list[tuple[str, str]]:
    """(outcome, text) of every tool result, in order."""
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [(part.outcome, str(part.content)) for part in parts]


@pytest.fixture
def results() -> Callable[[list[ModelMessage]], list[tuple[str, str]]]:
    return returns
