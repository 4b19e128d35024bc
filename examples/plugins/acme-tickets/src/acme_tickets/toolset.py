"""The tools that the model may call."""

from __future__ import annotations

from typing import Any

from deep_core import DeepAgentDeps
from pydantic_ai import FunctionToolset, RunContext, Tool

from .service import Service
from .state import OPEN

__all__ = ["build_toolset"]

Ctx = RunContext[DeepAgentDeps[Any]]


def build_toolset(service: Service) -> FunctionToolset[Any]:
    """Build the toolset of one agent."""

    async def tickets_list(ctx: Ctx) -> list[dict[str, Any]]:
        """List the open tickets."""
        found = await service.call("GET", "/tickets")
        # Another dict: a session's stored state shares what it was given.
        ctx.deps.state[OPEN] = {str(ticket["number"]): str(ticket["title"]) for ticket in found}
        return found

    async def tickets_create(ctx: Ctx, title: str, text: str = "") -> str:
        """Open a ticket."""
        made = await service.call("POST", "/tickets", title=title, text=text)
        ctx.deps.state[OPEN] = {**ctx.deps.state[OPEN], str(made["number"]): title}
        return f"#{made['number']}"

    async def tickets_close(ctx: Ctx, number: int) -> str:
        """Close a ticket."""
        await service.call("POST", f"/tickets/{number}/close")
        ctx.deps.state[OPEN] = {key: title for key, title in ctx.deps.state[OPEN].items() if key != str(number)}
        return "closed"

    reads, writes = {"tags": ["read", "network"]}, {"tags": ["write", "network"]}
    return FunctionToolset(
        [
            Tool[Any](tickets_list, metadata=reads),
            Tool[Any](tickets_create, metadata=writes),
            Tool[Any](tickets_close, metadata=writes, requires_approval=True),
        ],
        id="tickets",
    )
