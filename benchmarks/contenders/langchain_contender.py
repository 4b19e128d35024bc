"""What the contenders on LangChain have in common. Tools belong to the agent, so each session makes one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel  # type: ignore[import-not-found]
from langchain_core.messages import AIMessage, BaseMessage  # type: ignore[import-not-found]
from langchain_core.outputs import ChatGeneration, ChatResult  # type: ignore[import-not-found]
from langchain_core.utils.function_calling import convert_to_openai_tool  # type: ignore[import-not-found]

from benchmarks.work import WINDOW, Step, step, tool_chars

__all__ = ["Calls", "LangChainContender"]

PROMPT = "Do the work."
UNLIMITED = {"recursion_limit": 1_000_000}
Calls = list[tuple[str, dict[str, Any]]]


class ScriptedChatModel(BaseChatModel):
    """Answer request `n` with the calls of `answer(n)`; no call ends the run. Without tools, answer with a summary."""

    answer: Callable[[int, list[BaseMessage]], Calls]
    requests: int = 0
    tools: list[Any]
    summaries: list[int]

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Sequence[Any], **settings: Any) -> Any:
        """Remember the tools."""
        self.tools[:] = tools
        return self.bind(told=True)

    def _generate(self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **settings: Any) -> Any:
        if not settings.get("told"):
            self.summaries.append(self.requests)
            return _result(AIMessage("So far files were written, read and listed. " * 20))
        self.requests += 1
        calls = [
            {"name": name, "args": args, "id": f"c{self.requests}_{index}", "type": "tool_call"}
            for index, (name, args) in enumerate(self.answer(self.requests - 1, messages))
        ]
        return _result(AIMessage("" if calls else "done", tool_calls=calls))

    async def _agenerate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **settings: Any
    ) -> Any:
        return self._generate(messages, stop, run_manager, **settings)


def _result(message: AIMessage) -> ChatResult:
    return ChatResult(generations=[ChatGeneration(message=message)])


def _model(answer: Callable[[int, list[BaseMessage]], Calls], window: int = WINDOW) -> ScriptedChatModel:
    return ScriptedChatModel(answer=answer, tools=[], summaries=[], profile={"max_input_tokens": window})


@dataclass(frozen=True)
class LangChainContender:
    """What `PydanticAIContender` is for Pydantic AI, as far as the rows for peers need it.

    Attributes:
        build: makes an agent for a session in a directory.
        calls: the calls of a turn, by the names of its tools.
    """

    build: Callable[[BaseChatModel, Path], Any]
    calls: Callable[[Step], Calls]

    def create(self) -> None:
        """Make an agent."""
        self.build(_model(self._turns(0, lambda turn: None)), Path.cwd())

    async def work(self, root: Path, turns: int, pause: Callable[[int], None], *, streamed: bool = False) -> None:
        """Run one session."""
        await self._run(_model(self._turns(turns, pause)), root)

    async def many(self, roots: list[Path], turns: int) -> None:
        """Run sessions side by side."""
        await asyncio.gather(*(self.work(root, turns, lambda turn: None) for root in roots))

    async def compact(self, root: Path, turns: int, window: int) -> tuple[int, int]:
        """Do the work in a small window; return the summary requests and the most characters sent."""
        work, largest = self._turns(turns, lambda turn: None), 0

        def answer(request: int, messages: list[BaseMessage]) -> Calls:
            nonlocal largest
            largest = max(largest, sum(map(_chars, messages)))
            return work(request, messages)

        model = _model(answer, window)
        await self._run(model, root)
        return len(model.summaries), largest

    def first_request(self, root: Path) -> tuple[list[BaseMessage], ScriptedChatModel, float, float]:
        """Return the first request and its time."""
        seen: list[tuple[list[BaseMessage], float, float]] = []

        def answer(request: int, messages: list[BaseMessage]) -> Calls:
            seen.append((messages, time.monotonic(), time.process_time()))
            return []

        model = _model(answer)
        asyncio.run(self._run(model, root))
        messages, came, cpu = seen[0]
        return messages, model, came, cpu

    def static_cost(self, root: Path) -> tuple[int, int]:
        """Count the tools of a request, and its characters without the user's text."""
        messages, model, _, _ = self.first_request(root)
        tools = [convert_to_openai_tool(tool)["function"] for tool in model.tools]
        chars = sum(tool_chars(tool["name"], tool["description"], tool["parameters"]) for tool in tools)
        return len(tools), chars + sum(_chars(message) for message in messages if message.text != PROMPT)

    def _turns(self, turns: int, pause: Callable[[int], None]) -> Callable[[int, list[BaseMessage]], Calls]:
        def answer(request: int, messages: list[BaseMessage]) -> Calls:
            pause(request)
            return self.calls(step(request)) if request < turns else []

        return answer

    async def _run(self, model: ScriptedChatModel, root: Path) -> None:
        await self.build(model, root).ainvoke({"messages": [("user", PROMPT)]}, UNLIMITED)


def _chars(message: BaseMessage) -> int:
    return len(message.text) + sum(len(str(call["args"])) for call in getattr(message, "tool_calls", []))
