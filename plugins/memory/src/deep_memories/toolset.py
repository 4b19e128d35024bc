"""The three tools for the model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from anyio.to_thread import run_sync
from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.exceptions import ToolFailed

from .errors import MemoryRefused
from .options import MemoryOptions
from .place import store_of
from .search import answer
from .store import Store

__all__ = ["build_toolset"]

T = TypeVar("T")


def build_toolset(options: MemoryOptions, data_dir: Callable[[], Path], *, id: str = "memory") -> FunctionToolset[Any]:
    """Build the toolset for these options. It holds no session: each call finds the memory of its own."""

    async def recall(ctx: RunContext[Any], query: str = "") -> str:
        topics = await _in_store(ctx, Store.topics)
        return answer(topics, query, options.recall_chars)

    async def remember(ctx: RunContext[Any], topic: str, note: str) -> str:
        name = await _in_store(ctx, lambda store: store.remember(topic, note))
        return f"Remembered in {name}."

    async def forget(ctx: RunContext[Any], topic: str, note: str = "") -> str:
        removed = await _in_store(ctx, lambda store: store.forget(topic, note))
        return f"Forgot {removed}"

    async def _in_store(ctx: RunContext[Any], work: Callable[[Store], T]) -> T:
        try:
            store = store_of(ctx, options, data_dir)
            return await run_sync(work, store)
        except MemoryRefused as error:
            raise ToolFailed(f"{error}.") from error
        except OSError as error:
            # Without the path: it is of the host.
            raise ToolFailed(f"The memory cannot be written: {error.strerror or type(error).__name__}.") from error

    tools = [_tool(recall, "Read notes of earlier conversations: a topic, or words to search for.", ["read"])]
    if options.write:
        tools += [
            _tool(
                remember,
                "Keep a note for later conversations: a lasting fact or a wish of the user, never a secret.",
                ["write"],
            ),
            _tool(forget, "Remove a note (give its text), or a whole topic.", ["write", "destructive"]),
        ]
    return FunctionToolset(tools, id=id)


def _tool(function: Callable[..., Any], description: str, tags: list[str]) -> Tool[Any]:
    return Tool[Any](function, takes_ctx=True, description=description, metadata={"tags": tags})
