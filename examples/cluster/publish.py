"""A plugin file for the workers: the tool `publish`, which does no harm when a crash makes it run twice."""

import os
from typing import Any

import httpx
from deep_sessions import effect_key
from pydantic_ai import FunctionToolset, RunContext

from deep_core import hookimpl

tools: FunctionToolset[Any] = FunctionToolset(id="publish")


@tools.tool(metadata={"tags": ["write"], "on_unknown": "retry"})
async def publish(ctx: RunContext[Any], page: str) -> str:
    """Publish a page."""
    async with httpx.AsyncClient(timeout=60) as client:
        key = {"Idempotency-Key": effect_key(ctx)}  # the publisher ignores a key that it has seen
        return (await client.post(os.environ["PUBLISHER"], content=page, headers=key)).raise_for_status().text


@hookimpl
def deep_toolsets(context: Any) -> list[FunctionToolset[Any]]:
    return [tools]
