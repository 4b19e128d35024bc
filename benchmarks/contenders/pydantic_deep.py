"""pydantic-deep: its default agent; each session has a local workspace of Pydantic AI."""

from __future__ import annotations

from typing import Any

from pydantic_ai.models import Model
from pydantic_ai.workspaces import LocalWorkspaceBackend
from pydantic_deep import create_deep_agent, create_default_deps  # type: ignore[import-not-found]

from benchmarks.contenders.pydantic_ai_contender import PydanticAIContender

__all__ = ["CONTENDER"]


def build(model: Model) -> Any:
    """Make an agent; it does not ask the model for its window."""
    return create_deep_agent(model, context_manager_max_tokens=model.context_window)


CONTENDER = PydanticAIContender(
    build, lambda root: create_default_deps(), options=lambda root: {"workspace": LocalWorkspaceBackend(root)}
)
