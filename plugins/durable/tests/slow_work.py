"""A plugin for the workers of tests: the model `slow:SECONDS` calls the tool that the prompt names, if it names one.

`FOLDER` of the environment has the effects.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, UserPromptPart
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import hookimpl

FOLDER = Path(os.environ.get("FOLDER", "."))
tools: FunctionToolset[Any] = FunctionToolset(id="slow")


def append(name: str, line: str) -> None:
    """Write one line, which other processes do not tear apart."""
    file = os.open(FOLDER / name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(file, f"{line}\n".encode())
    os.close(file)


async def kill() -> None:
    append("killers", "kill")
    os.kill(os.getpid(), signal.SIGKILL)


async def kill_group() -> None:
    append("killers", "kill_group")
    os.killpg(0, signal.SIGKILL)


async def exit_at_once() -> None:
    append("killers", "exit_at_once")
    os._exit(0)


async def abort() -> None:
    append("killers", "abort")
    os.abort()


async def hang() -> None:
    append("killers", "hang")
    time.sleep(1e6)  # the event loop, not the task


async def leave() -> None:
    sys.exit(3)


async def wait() -> str:
    append("waits", "wait")
    while not (FOLDER / "gate").exists():
        await asyncio.sleep(0.05)
    return "done"


for poison in (wait, kill, kill_group, exit_at_once, abort, hang, leave):
    tools.add_function(poison, takes_ctx=False, metadata={"tags": ["write"], "on_unknown": "retry"})


@tools.tool(metadata={"tags": ["write"]})
async def put(ctx: RunContext[Any], n: int) -> str:
    """Have an effect that nothing protects: at most once."""
    append("puts", str(ctx.deps.session_id))
    return "done"


@hookimpl
def deep_toolsets(context: Any) -> list[FunctionToolset[Any]]:
    """Return the tools."""
    return [tools]


@hookimpl
def deep_resolve_model(model_id: str) -> Model | None:
    """Resolve `slow:SECONDS`."""
    scheme, _, seconds = model_id.partition(":")
    if scheme != "slow":
        return None

    async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        prompt = next(str(part.content) for part in messages[0].parts if isinstance(part, UserPromptPart))
        is_first = not any(isinstance(message, ModelResponse) for message in messages)
        if is_first and prompt in tools.tools:
            return ModelResponse([ToolCallPart(prompt, {})])
        await asyncio.sleep(float(seconds))
        append("ended", prompt)
        return ModelResponse([TextPart("done")])

    return FunctionModel(answer)
