"""Runtimes of docker sessions: images with packages, by name, from pydantic-ai-backend."""

from __future__ import annotations

try:
    from pydantic_ai_backends.backends.docker.runtimes import BUILTIN_RUNTIMES, get_runtime
    from pydantic_ai_backends.types import RuntimeConfig
except ModuleNotFoundError as error:
    from deep_core import MissingExtra

    raise MissingExtra("backends[docker]") from error

__all__ = ["BUILTIN_RUNTIMES", "RuntimeConfig", "get_runtime"]
