"""An agent that asks the user: itself, or a subagent some levels below. The tests run it in processes that die."""

from __future__ import annotations

import os
import signal
import sys

import anyio
import deep_ask
import deep_backends
import deep_sessions
import deep_subagents
from deep_sessions import AgentDeps, DeepAgent, open_store
from deep_subagents import decide
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import Kernel


def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """`level 2` delegates twice, and who has `level 0` asks; all repeat what came back."""
    results = [p.content for m in messages for p in m.parts if isinstance(p, ToolReturnPart)]
    if results:
        return ModelResponse([TextPart(" ".join(map(str, results)))])
    prompt = next(p.content for p in messages[0].parts if p.part_kind == "user-prompt")
    level = int(str(prompt).removeprefix("level "))
    if level:
        return ModelResponse([ToolCallPart("task", {"description": f"level {level - 1}"}, "t")])
    return ModelResponse([ToolCallPart("ask_user", {"question": "Which color?", "options": ["red", "blue"]}, "q")])


async def create(store: str) -> DeepAgent:
    kernel = Kernel(plugins=[deep_ask, deep_backends, deep_sessions, deep_subagents], discover=False, strict=True)
    deps = AgentDeps(model=FunctionModel(respond), session_store=open_store(store, kernel=kernel), kernel=kernel)
    return await DeepAgent.create(deps=deps, ask={"offer": True}, subagents={"max_depth": 2})


async def main(what: str, store: str) -> None:
    agent = await create(store)
    for level in range(3):
        name = f"s{level}"
        if what == "ask":
            assert (await agent.run(f"level {level}", session_id=name)).status == "awaiting_human"
        else:
            requests = (await agent.resume(name)).requests
            assert requests is not None
            (question,) = deep_ask.open_questions(requests)
            await agent.decide(name, decide(requests, {question.path: "blue"}))
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    anyio.run(main, sys.argv[1], sys.argv[2])
