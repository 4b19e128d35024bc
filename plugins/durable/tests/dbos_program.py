"""An agent with Pydantic AI's `DBOSDurability`, in a process of its own: `python dbos_program.py FOLDER EXECUTOR VERB`.

It writes a line to `FOLDER/<name>` for each request to the model and each execution of a tool.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from dbos import DBOS
from pydantic_ai import CancellationToken
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.durable_exec.dbos import DBOSDurability
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import DeepAgentDeps, Kernel, create_default_deps

FOLDER = Path(sys.argv[1])
CALLS = ("plain", "marked", "crash")
kernel = Kernel()


def append(name: str, line: str = "") -> int:
    """Write a line; return how many the file has now."""
    with (FOLDER / name).open("a+") as file:
        file.write(line + "\n")
        file.seek(0)
        return len(file.readlines())


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call one tool after the other."""
    n = sum(isinstance(message, ModelResponse) for message in messages)
    append("requests", str(n))
    append("offered", " ".join(sorted(tool.name for tool in info.function_tools)))
    return ModelResponse([ToolCallPart(CALLS[n], {}) if n < len(CALLS) else TextPart("finished")])


def plain() -> str:
    """Run as a tool runs."""
    append("plain")
    return "done"


@DBOS.step()
async def marked() -> str:
    """Run as a step of DBOS."""
    append("marked")
    return "done"


def crash() -> str:
    """Kill the process, the first time."""
    if append("crash") == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


agent = kernel.create_agent(
    FunctionModel(answer), name="tides", backend="local", tools=[plain, marked, crash], capabilities=[DBOSDurability()]
)


@DBOS.workflow()
async def ask(prompt: str, deps: DeepAgentDeps[Any]) -> str:
    """Run the agent."""
    return str((await agent.run(prompt, deps=deps)).output)


class Nothing(AbstractCapability[Any]):
    """Does nothing."""


@DBOS.workflow()
async def refusals() -> list[str]:
    """Return what the engine refuses."""
    told: list[str] = []
    hows: list[dict[str, Any]] = [{"capabilities": [Nothing()]}, {"cancellation_token": CancellationToken()}]
    for how in hows:
        try:
            await agent.run("hi", deps=create_default_deps(kernel=kernel), **how)
        except UserError as error:
            told.append(str(error))
    return told


async def main(executor: str, verb: str) -> None:
    """Do what the test says."""
    DBOS(
        config={
            "name": "tides",
            "system_database_url": f"sqlite:///{FOLDER}/dbos.db",
            "executor_id": executor,
            "application_version": "1",
            "log_level": "CRITICAL",
        }
    )
    DBOS.launch()
    if verb == "start":
        await ask("hi", create_default_deps(kernel=kernel, app="mine"))
    elif verb == "refusals":
        print(*await refusals(), sep="\n")
    else:
        (status,) = await DBOS.list_workflows_async()
        if verb == "finish":
            handle: Any = await DBOS.retrieve_workflow_async(status.workflow_id)
            print(await handle.get_result())
        else:
            print(status.status, status.executor_id)
    await asyncio.to_thread(DBOS.destroy)


asyncio.run(main(*sys.argv[2:]))
