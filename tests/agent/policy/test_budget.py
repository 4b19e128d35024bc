"""A tree of agents has one budget of requests, whoever in it sends them, side by side too."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.exceptions import ModelHTTPError, UsageLimitExceeded
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import RunUsage, UsageLimits

from deep_core import Kernel, create_default_deps
from tests.plugins_by_hand import kernel_of, plugin


class Counts:
    """Models that count the requests which they received, and how long each takes, in passes of the event loop."""

    def __init__(self, pauses: list[int], fails: int = -1) -> None:
        self.received = 0
        self.pauses = pauses
        self.fails = fails

    async def _receive(self) -> None:
        self.received += 1
        number = self.received
        for _ in range(self.pauses[number % len(self.pauses)]):
            await asyncio.sleep(0)
        if number == self.fails:
            raise ModelHTTPError(503, "stub")

    def parent(self, children: int) -> FunctionModel:
        """Start all children at once, then answer."""

        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            await self._receive()
            if len(messages) > 1 or not children:
                return ModelResponse([TextPart("done")])
            return ModelResponse([ToolCallPart("delegate", {}) for _ in range(children)])

        return FunctionModel(answer)

    def child(self) -> FunctionModel:
        """Never stop."""

        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            await self._receive()
            return ModelResponse([ToolCallPart("look", {})])

        return FunctionModel(answer)


def tree(counts: Counts, *, shares: bool = True) -> tuple[Kernel, list[str]]:
    """A kernel with a tool that starts a subagent, and how each subagent ended."""
    contexts: list[Any] = []
    ends: list[str] = []
    toolset = FunctionToolset[Any](id="delegate")

    @toolset.tool_plain
    async def look() -> str:
        await asyncio.sleep(0)
        return "nothing"

    @toolset.tool
    async def delegate(ctx: RunContext[Any]) -> str:
        child = contexts[0].create_agent(counts.child())
        usage = {"usage": ctx.usage} if shares else {}
        try:
            await child.run("go", deps=ctx.deps.clone_for_subagent(), usage_limits=ctx.usage_limits, **usage)
        except (UsageLimitExceeded, ModelHTTPError) as error:
            ends.append(type(error).__name__)
        return "ended"

    def toolsets(context: Any) -> list[Any]:
        contexts.append(context)
        return [toolset]

    return kernel_of(plugin("boss", toolsets=toolsets)), ends


def run_tree(counts: Counts, children: int, limit: int | None, **how: Any) -> tuple[list[str], str]:
    kernel, ends = tree(counts, **how)
    agent = kernel.create_agent(counts.parent(children))
    limits = UsageLimits(request_limit=limit)
    try:
        asyncio.run(agent.run("go", deps=create_default_deps(), usage_limits=limits))
    except UsageLimitExceeded:
        return ends, "exceeded"
    return ends, "done"


@pytest.mark.slow
@settings(max_examples=25)
@given(
    children=st.integers(1, 8),
    limit=st.integers(1, 20),
    pauses=st.lists(st.integers(0, 5), min_size=1, max_size=7),
)
def test_subagents_side_by_side_send_as_many_requests_as_the_run_may(
    children: int, limit: int, pauses: list[int]
) -> None:
    counts = Counts(pauses)
    ends, end = run_tree(counts, children, limit)
    assert counts.received == limit
    assert (ends, end) == (["UsageLimitExceeded"] * children, "exceeded")


def test_a_request_that_failed_gives_its_place_back() -> None:
    counts = Counts([3], fails=2)  # the first one of a child
    ends, end = run_tree(counts, 2, 9)
    assert (sorted(ends), end) == (["ModelHTTPError", "UsageLimitExceeded"], "exceeded")
    assert counts.received == 10  # nine answers, as a usage counts them, and the failure


def test_a_subagent_with_a_usage_of_its_own_has_its_own_limit() -> None:
    counts = Counts([2])
    ends, end = run_tree(counts, 3, 5, shares=False)
    assert (ends, end, counts.received) == (["UsageLimitExceeded"] * 3, "done", 2 + 3 * 5)


def test_without_a_limit_nothing_is_counted_against_one_and_the_next_run_starts_anew() -> None:
    counts = Counts([0])
    agent = kernel_of().create_agent(counts.parent(0))
    deps, usage = create_default_deps(), RunUsage()

    async def main() -> None:
        for _ in range(3):
            await agent.run("go", deps=deps, usage=usage, usage_limits=UsageLimits(request_limit=3))
        with pytest.raises(UsageLimitExceeded):
            await agent.run("go", deps=deps, usage=usage, usage_limits=UsageLimits(request_limit=3))
        await agent.run("go", deps=deps, usage=usage, usage_limits=UsageLimits(request_limit=None))

    asyncio.run(main())
    assert counts.received == 4
