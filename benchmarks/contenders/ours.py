"""Ours, on the confined local backend: with seven features, and with everything that is installed.

The backend writes atomically and flushes to the disk (fsync); the floor does not. That costs wall time.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from deep_backends import local_backend
from pydantic_ai import Agent
from pydantic_ai.models import Model

from benchmarks.contenders.pydantic_ai_contender import PydanticAIContender
from deep_core import Kernel, create_deep_agent, create_default_deps

__all__ = ["ALL", "CONTENDER", "FEATURES", "SMALL", "WITHOUT_RIPGREP", "kernel", "session"]

FEATURES = ("backends", "filesystem", "skills", "subagents", "summarization", "todo", "uploads")
"""The plugins that are measured: workspaces, file tools and commands, and five more features."""


@cache
def kernel(*further: str) -> Kernel:
    """Make a kernel with the seven features and further plugins."""
    return Kernel(allow=[*FEATURES, *further])


def _build(model: Model) -> Agent[Any, Any]:
    return kernel().create_agent(model)


def _build_all(model: Model) -> Agent[Any, Any]:
    return create_deep_agent(model)


def _build_small(model: Model) -> Agent[Any, Any]:
    return create_deep_agent(model, config={"agent": {"profile": "small"}})


def _build_without_ripgrep(model: Model) -> Agent[Any, Any]:
    return kernel().create_agent(model, config={"plugins": {"filesystem": {"options": {"ripgrep": False}}}})


def session(root: Path) -> Any:
    """Make a session in a directory."""
    return create_default_deps(backend=local_backend(root))


CONTENDER = PydanticAIContender(_build, session)
ALL = PydanticAIContender(_build_all, session)
"""With every installed plugin."""
WITHOUT_RIPGREP = PydanticAIContender(_build_without_ripgrep, session)
"""As on a machine that lacks it."""
SMALL = PydanticAIContender(_build_small, session)
"""With every installed plugin, for a model with a small window."""
