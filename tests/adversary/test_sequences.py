"""Sequences of questions, changes and answers: no call runs that a person did not allow, as it is, for its reasons."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import DeferredToolRequests, DeferredToolResults, FunctionToolset, Tool, ToolApproved
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from deep_core import Ask, DeepAgentDeps, Kernel, ToolCall, create_default_deps
from deep_core.plugin_api import Reason, reasons_of
from tests.plugins_by_hand import plugin

EXAMPLES = 10_000 if os.environ.get("DEEP_TEST_PROFILE") == "nightly" else 20
STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 2)),
    st.tuples(st.just("describe"), st.integers(0, 2)),
    st.tuples(st.just("guard"), st.sampled_from(["", "dear", "dearer"])),
    st.tuples(st.just("rule"), st.booleans()),
    st.tuples(st.sampled_from(["approve", "rewrite", "deny"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["fork", "rewind"]), st.just(0)),
)


@dataclass(frozen=True)
class Shown:
    """What a person saw: the call's argument, the version of the tool, and why it asks."""

    x: int
    words: int
    reasons: frozenset[Reason]


class Waiting(NamedTuple):
    """A conversation that waits, with the session as it was then."""

    messages: list[ModelMessage]
    call_id: str
    shown: Shown
    state: str


@dataclass
class World:
    """One session, what changes around it, and what a person allowed in it."""

    words: int = 0
    price: str = ""
    rule: bool = True
    ran: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    waiting: list[Waiting] = field(default_factory=list[Waiting])
    """Each conversation that waits, also those that are answered already: a client may send any of them again."""
    state: str | None = None
    count: int = 0

    def run(self, prompt: str | None, history: Sequence[ModelMessage] | None, results: Any = None) -> Any:
        """Run the agent in a kernel of its own: another process."""

        def act(x: int) -> str:
            self.ran.append((x, self.words, self.price))
            return "did"

        def check(call: ToolCall, context: Any) -> Ask | None:
            return Ask(self.price) if self.price else None

        def model(messages: list[ModelMessage], info: Any) -> ModelResponse:
            last = messages[-1].parts[-1]
            if last.part_kind == "user-prompt":
                self.count += 1
                return ModelResponse([ToolCallPart("act", {"x": int(str(last.content))}, f"c{self.count}")])
            return ModelResponse([TextPart("done")])

        tool = Tool(act, description=f"Acts, as of version {self.words}.", requires_approval=True)
        acting = plugin("acting", toolsets=[FunctionToolset([tool], id="acting")])
        rule = {"act": True} if self.rule else {}
        with Kernel(plugins=[acting, plugin("guard", check_call=check)], discover=False) as kernel:
            agent = kernel.create_agent(FunctionModel(model), backend=None, interrupt_on=rule)
            loaded = None if self.state is None else DeepAgentDeps[None].load(self.state, kernel=kernel)
            deps: DeepAgentDeps[None] = loaded or create_default_deps(kernel=kernel)
            result = asyncio.run(agent.run(prompt, deps=deps, message_history=history, deferred_tool_results=results))
            self.state = deps.dump()
        if isinstance(result.output, DeferredToolRequests):
            (call,) = result.output.approvals
            about = result.output.metadata[call.tool_call_id]
            x = about.get("args", call.args_as_dict())["x"]
            shown = Shown(x, self.words, frozenset(reasons_of(about)))
            self.waiting.append(Waiting(result.all_messages(), call.tool_call_id, shown, self.state))
        return result

    def step(self, what: str, number: Any) -> None:
        """Take one step, and check that nothing ran that was not allowed."""
        before = len(self.ran)
        grant: tuple[Shown, int] | None = None
        if what == "ask":
            self.run(str(number), None)
        elif what == "describe":
            self.words = number
        elif what == "guard":
            self.price = number
        elif what == "rule":
            self.rule = number
        elif what in ("fork", "rewind") and self.waiting:
            self.state = self.waiting[-1 if what == "fork" else 0][3]
        elif what in ("approve", "rewrite", "deny") and self.waiting:
            index: int = number % len(self.waiting)
            messages, call_id, shown, _ = self.waiting[index]
            answer: Any = {"approve": True, "deny": False}.get(what, ToolApproved(override_args={"x": number}))
            grant = (shown, number if what == "rewrite" else shown.x) if what != "deny" else None
            self.run(None, messages, DeferredToolResults(approvals={call_id: answer}))
        for x, words, price in self.ran[before:]:
            assert grant is not None, "it ran without a yes"
            assert x == grant[1], "it ran with other arguments"
            assert grant[0].words == words, "it ran after the tool had changed"
            assert not price or Reason("guard", price, "guard") in grant[0].reasons, "its reason was not shown"
        assert len(self.ran) <= before + 1


@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(STEPS, min_size=2, max_size=9))
def test_no_call_runs_that_a_person_did_not_allow(steps: list[tuple[str, Any]]) -> None:
    world = World()
    world.step("ask", 1)
    for what, number in steps:
        world.step(what, number)


def test_a_call_that_was_allowed_runs() -> None:
    world = World()
    for what, number in [("ask", 1), ("approve", 0), ("guard", "dear"), ("ask", 2), ("approve", 1)]:
        world.step(what, number)
    assert [x for x, *_ in world.ran] == [1, 2]
