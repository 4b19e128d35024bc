"""A plugin that keeps the text of a session in a cache."""

from __future__ import annotations

from functools import cache
from typing import Any

from deep_core import hookimpl


@cache
def notebook() -> list[str]:
    """The notes, made once."""
    return []


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="notes")

    @toolset.tool_plain(metadata={"tags": ["read"]})
    async def note(text: str) -> str:
        """Note something."""
        notebook().append(text)
        return "noted"

    return [toolset]
