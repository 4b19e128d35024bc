"""Ours: everything that is installed, seven features, on the confined local backend.

The backend writes atomically and flushes to the disk (fsync); the floor does not. That costs wall time.
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
    """Make an agent."""
    return create_deep_agent(model)


def session(root: Path) -> Any:
    """Make a session in a directory."""
    return create_default_deps(backend=local_backend(root))


CONTENDER = PydanticAIContender(build, session)
