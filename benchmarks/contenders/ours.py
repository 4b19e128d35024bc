"""Ours: all that is installed, seven features on, over the confined local backend.

That backend's writes are atomic and flushed to the disk (fsync), which the floor's are not: it costs wall time, no CPU.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from deep_backends import local_backend
from pydantic_ai import Agent
from pydantic_ai.models import Model

from benchmarks.contenders.pydantic_ai_contender import PydanticAIContender
from deep_core import create_deep_agent, create_default_deps

__all__ = ["CONTENDER"]


def build(model: Model) -> Agent[Any, Any]:
    """An agent as `create_deep_agent` makes it."""
    return create_deep_agent(model)


def session(root: Path) -> Any:
    """A session in a directory."""
    return create_default_deps(backend=local_backend(root))


CONTENDER = PydanticAIContender(build, session)
