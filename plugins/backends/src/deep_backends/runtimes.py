"""Runtimes of docker sessions: images with packages in them, by name. They are pydantic-ai-backend's own."""

from __future__ import annotations

try:
    from pydantic_ai_backends.backends.docker.runtimes import BUILTIN_RUNTIMES, get_runtime
    from pydantic_ai_backends.types import RuntimeConfig
except ModuleNotFoundError as error:
    from deep_core import MissingExtra

    raise MissingExtra("backends[docker]") from error

__all__ = ["BUILTIN_RUNTIMES", "RuntimeConfig", "get_runtime"]
