"""A plugin for the workers of tests: sessions of many steps, whose effects can be counted.

The model `long:N` takes N steps; the second one is the tool that the prompt names. It holds no state: it answers what
the conversation has come to. `FOLDER` of the environment has the effects.
"""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

from deep_sessions import effect_key, transaction
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import hookimpl

FOLDER = Path(os.environ.get("FOLDER", "."))
TOOLS = ("put", "pay", "book")
things: FunctionToolset[Any] = FunctionToolset(id="things")


def append(name: str, line: str) -> None:
    """Write one line, which other processes do not tear apart."""
    file = os.open(FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{line}\n".encode())
    os.close(file)


@things.tool(metadata={"tags": ["write"]})
async def put(ctx: RunContext[Any], n: int) -> str:
    """Have an effect that nothing protects: at most once."""
    append("puts", f"{ctx.deps.session_id} {n}")
    return "done"


@things.tool(metadata={"tags": ["write"], "on_unknown": "retry"})
async def pay(ctx: RunContext[Any], n: int) -> str:
    """Call a service that honors keys: exactly once."""
    append("requests", effect_key(ctx))
    (FOLDER / "payments" / f"{ctx.deps.session_id} {n} {effect_key(ctx)}".replace("/", ":")).touch()
    return "done"


@things.tool(metadata={"tags": ["write"], "on_unknown": "retry"})
async def book(ctx: RunContext[Any], n: int) -> str:
    """Write into the database of the sessions: exactly once."""
    with transaction(ctx) as connection:
        connection.execute("insert into bookings values (%s, %s)", [ctx.deps.session_id, n])
    return "done"


@things.tool(metadata={"tags": ["write"]})
async def hold(ctx: RunContext[Any], n: int) -> str:
    """Last until the gate is open."""
    append("holds", f"{ctx.deps.session_id} {n}")
    while not (FOLDER / "gate").exists():
        await asyncio.sleep(0.01)
    append("held", f"{ctx.deps.session_id} {n}")
    return "done"


@things.tool(metadata={"tags": ["write"], "on_unknown": "retry"})
async def crash(ctx: RunContext[Any], n: int) -> str:
    """Kill the worker."""
    append("crashes", f"{ctx.deps.session_id} {n}")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@hookimpl
def deep_toolsets(context: Any) -> list[FunctionToolset[Any]]:
    """Return the tools."""
    return [things]


@hookimpl
def deep_resolve_model(model_id: str) -> Model | None:
    """Resolve `long:N`."""
    scheme, _, steps = model_id.partition(":")
    if scheme != "long":
        return None

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompts = [str(part.content) for part in messages[0].parts if isinstance(part, UserPromptPart)]
        n = sum(isinstance(message, ModelResponse) for message in messages)
        if n >= int(steps):
            return ModelResponse([TextPart("finished")])
        if n == 1 and prompts[0] in ("crash", "hold"):
            return ModelResponse([ToolCallPart(prompts[0], {"n": n})])
        calls = [ToolCallPart(TOOLS[n % 3], {"n": n}), ToolCallPart(TOOLS[(n + 1) % 3], {"n": n})]
        return ModelResponse(calls)

    return FunctionModel(answer)
