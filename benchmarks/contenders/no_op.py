"""An agent of ours with the floor's tools, and with plugins that contribute nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models import Model

from benchmarks.contenders.by_hand import INSTRUCTIONS, Session
from benchmarks.contenders.floor import ASYNC_TOOLS, TOOLS
from benchmarks.contenders.pydantic_ai_contender import PydanticAIContender
from deep_core import Kernel, create_default_deps, hookimpl

__all__ = ["ASYNC", "FORTY", "NONE"]


class NoOp:
    """A plugin that contributes nothing to any hook."""

    @hookimpl
    def deep_toolsets(self, context: Any) -> list[Any]:
        return []

    @hookimpl
    def deep_prompt_sections(self, context: Any) -> list[Any]:
        return []

    @hookimpl
    def deep_history_processors(self, context: Any) -> list[Any]:
        return []

    @hookimpl
    def deep_capabilities(self, context: Any) -> list[Any]:
        return []


def _build(plugins: int, tools: Sequence[Callable[..., Any]] = TOOLS) -> Callable[[Model], Agent[Any, Any]]:
    kernel = Kernel(plugins=[type(f"NoOp{number}", (NoOp,), {})() for number in range(plugins)], discover=False)

    def build(model: Model) -> Agent[Any, Any]:
        return kernel.create_agent(model, instructions=INSTRUCTIONS, tools=tools)

    return build


def _session(root: Path) -> Any:
    return create_default_deps(app=Session(root))


NONE = PydanticAIContender(_build(0), _session)
ASYNC = PydanticAIContender(_build(0, ASYNC_TOOLS), _session)
FORTY = PydanticAIContender(_build(40), _session)
