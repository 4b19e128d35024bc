"""A plugin that keeps the text of a session in a context variable's default."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from deep_core import hookimpl

NOTES: ContextVar[list[str]] = ContextVar("notes", default=[])  # noqa: B039


@hookimpl
def deep_toolsets() -> list[Any]:
    from pydantic_ai import FunctionToolset

    toolset = FunctionToolset[Any](id="notes")

    @toolset.tool_plain(metadata={"tags": ["read"]})
    async def note(text: str) -> str:
        """Note something."""
        NOTES.get().append(text)
        return "noted"

    return [toolset]
