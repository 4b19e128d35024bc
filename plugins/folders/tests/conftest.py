"""Agents with the plugin over a real directory, and a model that plays calls and keeps what it was sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_folders
import pytest
from deep_backends import local_backend
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import DeepAgentDeps, Kernel
from deep_core.plugin_api import live_text

SECTION = "folders.instructions"


class Session:
    """One session: `run(*calls)` makes one call a request, and `told` is what the section said, in order."""

    def __init__(self, agent: Any, deps: DeepAgentDeps[Any]) -> None:
        self.agent, self.deps = agent, deps
        self.history: list[ModelMessage] = []

    def run(self, *calls: tuple[str, dict[str, Any]]) -> Sequence[str]:
        play = iter([ModelResponse([ToolCallPart(name, args)]) for name, args in calls])

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return next(play, ModelResponse([TextPart("done")]))

        model = FunctionModel(answer)
        run = self.agent.run("go", model=model, deps=self.deps, message_history=self.history)
        self.history = asyncio.run(run).all_messages()
        return self.told

    @property
    def told(self) -> list[str]:
        texts = [live_text(part) for message in self.history for part in message.parts]
        return [text.text for text in texts if text is not None and text.section == SECTION]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.fixture
def make_session(project: Path) -> Iterator[Callable[..., Session]]:
    """`make_session(backend=…, max_chars=…)`: a session in `project`, where nothing asks."""
    kernels: list[Kernel] = []

    def make(backend: Any = None, **options: Any) -> Session:
        kernel = Kernel(plugins=[deep_folders, deep_backends, deep_filesystem], discover=False, strict=True)
        kernels.append(kernel)
        agent = kernel.create_agent("test", interrupt_on=False, plugins=[deep_folders.FoldersOptions(**options)])
        deps = DeepAgentDeps[Any](backend=backend or local_backend(project))
        deps.state.bind(kernel)
        return Session(agent, deps)

    yield make
    for kernel in kernels:
        kernel.close()
