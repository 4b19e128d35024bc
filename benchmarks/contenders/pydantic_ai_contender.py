"""What the contenders on Pydantic AI have in common: running an agent, and reading its requests."""

from __future__ import annotations

import asyncio
import resource
import sys
import time
from collections.abc import AsyncIterable, Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo
from pydantic_ai.usage import RequestUsage, UsageLimits

from benchmarks.scripted import Calls, either_way, ours_and_floors, work_model
from benchmarks.work import Step, tool_chars

__all__ = ["PydanticAIContender"]

PROMPT = "Do the work."
UNLIMITED = UsageLimits(request_limit=None)


MAXRSS_PER_MB = 1024 * 1024 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Answered:
    """One tool call: milliseconds, the growth of peak memory in MB, and the result that the model sees."""

    ms: float
    mb: float
    text: str


@dataclass(frozen=True)
class PydanticAIContender:
    """A contender that is a `pydantic_ai.Agent`.

    Attributes:
        build: makes an agent for a model.
        session: makes the deps of a session in a directory.
        calls: the calls of a turn, by the names of its tools.
        options: further arguments of `run` for a session in a directory.
    """

    build: Callable[[Model], Agent[Any, Any]]
    session: Callable[[Path], Any]
    calls: Callable[[Step], Calls] = ours_and_floors
    options: Callable[[Path], dict[str, Any]] = lambda root: {}

    @cached_property
    def agent(self) -> Agent[Any, Any]:
        """One agent for many sessions."""
        return self.build(work_model(0))

    def run_options(self, root: Path) -> dict[str, Any]:
        """Return the arguments of `run` for a new session."""
        return {"deps": self.session(root), **self.options(root)}

    def create(self) -> None:
        """Make an agent."""
        self.build(work_model(0))

    async def work(self, root: Path, turns: int, pause: Callable[[int], None], *, streamed: bool = False) -> None:
        """Run one session in a prepared directory; call `pause(n)` at request `n`."""
        agent = self.build(work_model(turns, pause, self.calls))
        handler = _ignore if streamed else None
        await agent.run(PROMPT, **self.run_options(root), usage_limits=UNLIMITED, event_stream_handler=handler)

    async def many(self, roots: list[Path], turns: int) -> None:
        """Run sessions side by side on one agent, each in its directory."""
        agent = self.build(work_model(turns))

        async def one(root: Path) -> None:
            model = work_model(turns, calls=self.calls)
            await agent.run(PROMPT, model=model, **self.run_options(root), usage_limits=UNLIMITED)

        await asyncio.gather(*map(one, roots))

    async def session_of(self, root: Path, turns: int) -> Any:
        """Run a session; return what an application keeps of it: deps and messages."""
        deps = self.session(root)
        model = work_model(turns, calls=self.calls)
        result = await self.agent.run(
            PROMPT, model=model, **{**self.run_options(root), "deps": deps}, usage_limits=UNLIMITED
        )
        return deps, result.all_messages()

    async def continued(self, root: Path, messages: int, turns: int, pause: Callable[[int], None]) -> None:
        """Continue a history of so many messages."""
        agent = self.build(work_model(turns, pause, self.calls))
        past = history(messages)
        await agent.run(PROMPT, **self.run_options(root), message_history=past, usage_limits=UNLIMITED)

    async def compact(self, root: Path, turns: int, window: int) -> tuple[int, int]:
        """Do the work in a small window; return the summary requests and the most characters sent."""
        model = work_model(turns, calls=self.calls)
        respond, summaries, largest = model.function, 0, 0

        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            nonlocal summaries, largest
            chars = sum(map(_chars, messages))
            if info.function_tools:
                largest = max(largest, chars)
                return await respond(messages, info)  # type: ignore[misc]
            summaries += 1
            return ModelResponse(parts=[TextPart("So far files were written, read and listed. " * 20)])

        model = either_way(answer, window=window)
        await self.build(model).run(PROMPT, **self.run_options(root), usage_limits=UNLIMITED)
        return summaries, largest

    async def one_call(self, root: Path, tool: str, args: dict[str, Any], tools: Sequence[Any] = ()) -> Answered:
        """Call one of its own tools, or of the application's `tools`; time it from the answer to the next request."""
        came: list[tuple[float, list[ModelMessage]]] = []

        async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            came.append((time.perf_counter(), messages))
            part = ToolCallPart(tool, args, tool_call_id="call") if len(came) == 1 else TextPart("done")
            return ModelResponse(parts=[part], usage=RequestUsage(input_tokens=1, output_tokens=1))

        model = either_way(respond)
        toolsets = [FunctionToolset(list(tools))] if tools else None
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        await self.build(model).run(PROMPT, **self.run_options(root), toolsets=toolsets)
        grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / MAXRSS_PER_MB
        (part,) = [p for m in came[1][1] for p in m.parts if isinstance(p, ToolReturnPart)]
        return Answered((came[1][0] - came[0][0]) * 1000, grown, str(part.content))

    def first_request(self, root: Path) -> tuple[list[ModelMessage], AgentInfo, float, float]:
        """Return the first request and its time: on the system's monotonic clock, and in CPU seconds."""
        seen: list[tuple[list[ModelMessage], AgentInfo, float, float]] = []

        async def respond(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            seen.append((messages, info, time.monotonic(), time.process_time()))
            return ModelResponse(parts=[TextPart("done")])

        model = either_way(respond)
        self.build(model).run_sync(PROMPT, **self.run_options(root))
        return seen[0]

    def static_cost(self, root: Path) -> tuple[int, int]:
        """Count the tools of a request, and its characters without the user's text."""
        messages, info, _, _ = self.first_request(root)
        chars = sum(tool_chars(t.name, t.description or "", t.parameters_json_schema) for t in info.function_tools)
        chars += len(info.instructions or "")
        for message in messages:
            for part in message.parts if isinstance(message, ModelRequest) else ():
                if isinstance(part, SystemPromptPart | UserPromptPart) and part.content != PROMPT:
                    chars += len(str(part.content))
        return len(info.function_tools), chars


def history(messages: int) -> list[ModelMessage]:
    """Make a conversation: a question, calls of `ls` with their results, an answer."""
    out: list[ModelMessage] = [ModelRequest(parts=[UserPromptPart("Look around.")])]
    for number in range((messages - 2) // 2):
        call = ToolCallPart("ls", {"path": "."}, tool_call_id=f"past-{number}")
        out.append(ModelResponse(parts=[call], usage=RequestUsage(input_tokens=1, output_tokens=1)))
        result = ToolReturnPart("ls", f"n{number}.md (20 bytes)\n" * 10, tool_call_id=call.tool_call_id)
        out.append(ModelRequest(parts=[result]))
    return [*out, ModelResponse(parts=[TextPart("done")])]


def _chars(message: ModelMessage) -> int:
    """Count the characters that a provider gets of a message."""
    return sum(
        len(part.args_as_json_str() if isinstance(part, ToolCallPart) else str(part.content))
        for part in message.parts
        if isinstance(part, ToolCallPart | ToolReturnPart | TextPart | UserPromptPart | SystemPromptPart)
    )


async def _ignore(ctx: Any, events: AsyncIterable[Any]) -> None:
    async for _ in events:
        pass
