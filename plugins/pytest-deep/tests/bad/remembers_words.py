"""A plugin whose bounded cache keeps the text of sessions."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from deep_core import hookimpl


@lru_cache(maxsize=100)
def plain(text: str, *, width: int = 80) -> str:
    """A text as one line."""
    return " ".join(text.split())[:width]


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="notes")

    @toolset.tool_plain(metadata={"tags": ["read"]})
    async def measure(text: str) -> int:
        """How long a text is."""
        return len(plain(text, width=40))

    return [toolset]
