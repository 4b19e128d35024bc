"""Agents with a memory, each process with a data directory of the test's own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import deep_backends
import deep_memories
import pytest
from deep_backends import local_backend
from deep_memories.store import Store
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import DeepAgentDeps, Kernel
from deep_core.plugin_api import live_text


class Session:
    """One session: `run(*calls)` returns (outcome, text) of each call's result; `told` is what the index said."""

    def __init__(self, agent: Any, deps: DeepAgentDeps[Any]) -> None:
        self.agent, self.deps = agent, deps
        self.history: list[ModelMessage] = []
        self.offered: list[str] = []

    def run(self, *calls: tuple[str, dict[str, Any]]) -> list[tuple[str, str]]:
        play = iter([ModelResponse([ToolCallPart(name, args)]) for name, args in calls])

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            self.offered = sorted(tool.name for tool in info.function_tools)
            return next(play, ModelResponse([TextPart("done")]))

        run = self.agent.run("go", model=FunctionModel(answer), deps=self.deps, message_history=self.history)
        result = asyncio.run(run)
        self.history = result.all_messages()
        parts = [part for message in result.new_messages() for part in message.parts]
        return [(part.outcome, str(part.content)) for part in parts if isinstance(part, ToolReturnPart)]

    @property
    def told(self) -> list[str]:
        texts = [live_text(part) for message in self.history for part in message.parts]
        return [text.text for text in texts if text is not None]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def make_session(project: Path, data: Path) -> Iterator[Callable[..., Session]]:
    """`make_session(backend=…, app=…, enabled=…)`: a session in `project` with the memory on, where nothing asks."""
    kernels: list[Kernel] = []

    def make(backend: Any = None, app: Any = None, **options: Any) -> Session:
        kernel = Kernel(plugins=[deep_memories, deep_backends], discover=False, strict=True, data_dir=data)
        kernels.append(kernel)
        given = deep_memories.MemoryOptions(**{"enabled": True, **options})
        agent = kernel.create_agent("test", interrupt_on=False, plugins=[given])
        deps = DeepAgentDeps[Any](backend=backend or local_backend(project), app=app)
        deps.state.bind(kernel)
        return Session(agent, deps)

    yield make
    for kernel in kernels:
        kernel.close()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "notes", note_chars=1_000, max_topics=50, topic_chars=20_000)
