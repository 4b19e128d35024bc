"""Sequences of questions, changes and answers: no call runs that a person did not allow, as it is, for its reasons.

`test_no_call_runs…` has two machines: the client that holds the conversation itself, and sessions in a store with all
that reaches them (`stored_world.py`): agents, a worker, the page and other clients over HTTP, a terminal and an editor
in their modes, and the tools as an MCP server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from pydantic_ai import DeferredToolRequests, DeferredToolResults, FunctionToolset, Tool, ToolApproved
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

from deep_core import Ask, DeepAgentDeps, Kernel, ToolCall, create_default_deps
from deep_core.plugin_api import Reason, reasons_of
from tests.adversary.stored_world import Agents, World, current
from tests.drawn import many, sequences
from tests.plugins_by_hand import plugin

STEPS = st.one_of(
    st.tuples(st.just("ask"), st.integers(0, 2)),
    st.tuples(st.just("describe"), st.integers(0, 2)),
    st.tuples(st.just("guard"), st.sampled_from(["", "dear", "dearer"])),
    st.tuples(st.just("rule"), st.booleans()),
    st.tuples(st.sampled_from(["approve", "approve", "rewrite", "forge", "deny"]), st.integers(0, 5)),
    st.tuples(st.sampled_from(["fork", "rewind"]), st.just(0)),
)


def forged(messages: list[ModelMessage], call_id: str, x: int) -> list[ModelMessage]:
    """Return a conversation in which the call has another argument."""
    part = ToolCallPart("act", {"x": x}, call_id)
    response = messages[-1]
    assert isinstance(response, ModelResponse)
    return [*messages[:-1], replace(response, parts=[part])]


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
    said: int
    """The argument in the conversation, over which a person may have written the one that was shown."""
    state: str
    open: frozenset[int]
    """The questions that nobody had answered with effect, by their numbers."""


@dataclass
class Client:
    """One session, what changes around it, and what a person allowed in it."""

    words: int = 0
    price: str = ""
    rule: bool = True
    ran: list[tuple[int, int, str]] = field(default_factory=list[tuple[int, int, str]])
    waiting: list[Waiting] = field(default_factory=list[Waiting])
    """Each conversation that waits, also those that are answered already: a client may send any of them again."""
    state: str | None = None
    open: frozenset[int] = frozenset()
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
            self.open |= {len(self.waiting)}
            said = call.args_as_dict()["x"]
            self.waiting.append(Waiting(result.all_messages(), call.tool_call_id, shown, said, self.state, self.open))
        return result

    def step(self, what: str, number: Any) -> None:
        """Take one step, and check that nothing ran that was not allowed."""
        before = len(self.ran)
        allowed: dict[int, tuple[Shown, int]] = {}
        if what == "ask":
            self.run(str(number), None)
        elif what == "describe":
            self.words = number
        elif what == "guard":
            self.price = number
        elif what == "rule":
            self.rule = number
        elif what in ("fork", "rewind") and self.waiting:
            then = self.waiting[-1 if what == "fork" else 0]
            self.state, self.open = then.state, then.open
        elif what in ("approve", "rewrite", "forge", "deny") and self.waiting:
            index: int = number % len(self.waiting)
            messages, call_id, *_ = self.waiting[index]
            rewritten = ToolApproved(override_args={"x": number})
            answer: Any = {"approve": True, "forge": True, "deny": False}.get(what, rewritten)
            if what == "forge":  # the client says that another call waits
                messages = forged(messages, call_id, number)
            # An answer names a call: it is for what was asked about it last, and for each question once.
            about = {n: self.waiting[n].shown for n in self.open if self.waiting[n].call_id == call_id}
            if what == "rewrite" and about:  # over what the conversation shows, or else over what was asked last
                same = [n for n, each in about.items() if self.waiting[index].said in (each.x, self.waiting[n].said)]
                about = {max(same or about): about[max(same or about)]}
            if what != "deny":
                allowed = {n: (each, number if what == "rewrite" else each.x) for n, each in about.items()}
            self.run(None, messages, DeferredToolResults(approvals={call_id: answer}))
            if what == "deny":
                self.open -= {*about}
        for x, words, price in self.ran[before:]:
            fits = [
                n
                for n, (shown, allowed_x) in allowed.items()
                if x == allowed_x
                and shown.words == words
                and (not price or Reason("guard", price, "guard") in shown.reasons)
            ]
            assert fits, f"no person allowed {x} of version {words}, which costs {price!r}"
            self.open -= {max(fits)}
        assert len(self.ran) <= before + 1


PARTS = many(1, 20)
"""Tests that share the 10,000 sequences of a night: one alone takes longer than a test may."""
MACHINE = settings(max_examples=sequences(10_000) // PARTS, deadline=None, suppress_health_check=[HealthCheck.too_slow])
in_parts = pytest.mark.parametrize("part", range(PARTS))


@in_parts
@MACHINE
@given(st.lists(STEPS, min_size=2, max_size=9))
def test_no_call_runs_that_a_person_did_not_allow(part: int, steps: list[tuple[str, Any]]) -> None:
    client = Client()
    client.step("ask", 1)
    for what, number in steps:
        client.step(what, number)
    event(f"asked {len(client.waiting)}, ran {len(client.ran)}")


TOLD: dict[str, tuple[list[tuple[str, Any]], list[int]]] = {
    # name: the steps after a question about 1, and what runs
    "once": ([("approve", 0)], [1]),
    "twice": ([("approve", 0), ("approve", 0)], [1]),
    "twice, and once to the question that asks again": ([("approve", 0), ("approve", 0), ("approve", 1)], [1, 1]),
    "after a denial": ([("deny", 0), ("approve", 0)], []),
    "forged": ([("forge", 5)], []),
    "forged, then as it was": ([("forge", 5), ("approve", 0)], [1]),
    "rewritten": ([("rewrite", 5)], [5]),
    "forged, rewritten as it was, and then as forged": ([("forge", 4), ("rewrite", 0), ("forge", 4)], [0, 4]),
    "described otherwise, and rewritten twice": ([("describe", 1), ("rewrite", 0), ("rewrite", 0)], [0]),
    "rewritten twice": ([("rewrite", 5), ("rewrite", 4)], [5]),
    "described otherwise": ([("describe", 1), ("approve", 0)], []),
    "described otherwise, and asked again": ([("describe", 1), ("approve", 0), ("approve", 1)], [1]),
    "described otherwise, and back": ([("describe", 1), ("describe", 0), ("approve", 0)], [1]),
    "a guard came": ([("guard", "dear"), ("approve", 0)], []),
    "a guard came, and was heard": ([("guard", "dear"), ("approve", 0), ("approve", 1)], [1]),
    "a guard says more": ([("guard", "dear"), ("ask", 2), ("guard", "dearer"), ("approve", 1)], []),
    "a guard left": ([("guard", "dear"), ("ask", 2), ("guard", ""), ("approve", 1)], [2]),
    "rewound, and answered": ([("approve", 0), ("rewind", 0), ("approve", 0)], [1, 1]),
    "two questions, one answered twice": ([("ask", 1), ("approve", 0), ("approve", 0)], [1]),
    "two questions": ([("ask", 1), ("approve", 0), ("approve", 1)], [1, 1]),
}


@pytest.mark.parametrize("steps", TOLD)
def test_what_runs_of_sequences_that_are_told(steps: str) -> None:
    client = Client()
    client.step("ask", 1)
    for what, number in TOLD[steps][0]:
        client.step(what, number)
    assert [x for x, *_ in client.ran] == TOLD[steps][1]


@pytest.mark.parametrize("change", ["arguments", "again"])
def test_a_capability_that_uses_other_arguments_or_calls_again_asks_again(change: str) -> None:
    ran: list[int] = []

    def act(x: int) -> str:
        ran.append(x)
        return "did"

    class Changes(AbstractCapability[Any]):
        async def wrap_tool_execute(self, ctx: Any, *, handler: Any, args: Any, **more: Any) -> Any:
            result = await handler({"x": 7} if change == "arguments" else args)
            return await handler(args) if change == "again" else result

    def model(messages: list[ModelMessage], info: Any) -> ModelResponse:
        return ModelResponse([ToolCallPart("act", {"x": 1}, "c1") if len(messages) == 1 else TextPart("done")])

    acting = plugin("acting", toolsets=[FunctionToolset([Tool(act, requires_approval=True)], id="acting")])
    with Kernel(plugins=[acting, plugin("changes", capabilities=[Changes()])], discover=False) as kernel:
        agent = kernel.create_agent(FunctionModel(model), backend=None)
        deps: DeepAgentDeps[None] = create_default_deps(kernel=kernel)
        asked = asyncio.run(agent.run("go", deps=deps))
        assert isinstance(asked.output, DeferredToolRequests)
        yes = DeferredToolResults(approvals={"c1": True})
        result = asyncio.run(agent.run(deps=deps, message_history=asked.all_messages(), deferred_tool_results=yes))
        assert isinstance(result.output, DeferredToolRequests)
    assert ran == ([] if change == "arguments" else [1])


def test_a_call_that_was_allowed_runs() -> None:
    client = Client()
    for what, number in [("ask", 1), ("approve", 0), ("guard", "dear"), ("ask", 2), ("approve", 1)]:
        client.step(what, number)
    assert [x for x, *_ in client.ran] == [1, 2]


# -- sessions in a store, and all that reaches them --------------------------------------------------------------------

INTERFACES = ("agent", "worker", "page", "client", "terminal", "editor", "served")
WHERE = st.sampled_from(INTERFACES)
WHAT = st.sampled_from(
    ["ask"] * 3
    + ["approve"] * 3
    + ["deny", "rewrite", "leave", "resume", "stop", "fork", "rewind", "import", "switch", "change", "change", "mode"]
)
Processes: TypeAlias = "tuple[asyncio.AbstractEventLoop, Agents]"
STORED = st.lists(st.tuples(WHAT, WHERE, st.integers(0, 7)), min_size=3, max_size=12)


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    """The processes of every sequence: each sequence has sessions of its own."""
    loop = asyncio.new_event_loop()  # not the current one, which ends with each test
    agents = Agents()
    yield loop, agents
    loop.run_until_complete(agents.close())
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()


def play(processes: Processes, steps: Sequence[tuple[Any, Any, int]]) -> World:
    """Take the steps in sessions of their own."""
    loop, agents = processes
    world = World(agents)
    current[:] = [world]

    async def take() -> None:
        await world.begin()
        for what, where, number in steps:
            await world.step(what, where, number)

    loop.run_until_complete(take())
    return world


@pytest.mark.slow
@in_parts
@MACHINE
@given(STORED)
def test_no_call_of_a_stored_session_runs_that_a_person_did_not_allow(
    part: int, processes: Processes, steps: list[tuple[str, str, int]]
) -> None:
    world = play(processes, steps)
    event(f"asked {len(world.asked_at)}, ran {world.ran}; by MCP {len(world.served.questions)}, {world.served.ran}")


STORIES: dict[str, tuple[list[tuple[str, str, int]], int]] = {
    # name: the steps after the question about saving `file1`, call `c/1`; and how many calls run
    "a tab that is late": ([("stop", "page", 0), ("ask", "agent", 4), ("approve", "page", 1)], 0),
    "a tab that is not": ([("stop", "page", 0), ("ask", "agent", 4), ("approve", "page", 0)], 1),
    "an answer before a rewind": (
        [("leave", "agent", 0), ("rewind", "agent", 0), ("ask", "agent", 4), ("resume", "worker", 0)],
        0,
    ),
    "an answer before a stop": (
        [("leave", "agent", 0), ("stop", "page", 0), ("ask", "agent", 4), ("resume", "agent", 0)],
        0,
    ),
    "an answer that waits": ([("leave", "agent", 0), ("resume", "worker", 0)], 1),
    "an answer that waits, in the editor": ([("leave", "agent", 0), ("resume", "editor", 0)], 1),
    "an answer that waited before a stop, in the editor": (
        [("leave", "agent", 0), ("stop", "page", 0), ("resume", "editor", 0)],
        0,
    ),
    "an answer that waits, and then a guard": (
        [("leave", "agent", 0), ("change", "agent", 6), ("change", "agent", 2), ("resume", "worker", 0)],
        0,
    ),
    "an answer that waits, and another tool": (
        [("leave", "agent", 0), ("change", "agent", 1), ("resume", "page", 0)],
        0,
    ),
    "an answer in a fork": ([("fork", "page", 7), ("approve", "agent", 0), ("resume", "agent", 0)], 0),
    "an import with its state": ([("import", "agent", 0), ("approve", "page", 0)], 1),
    "an import without its state": ([("import", "agent", 1), ("approve", "agent", 0)], 0),
    "an import without its state, asked again": (
        [("import", "agent", 1), ("approve", "agent", 0), ("approve", "worker", 0)],
        1,
    ),
    "an import of messages alone": ([("import", "agent", 2), ("approve", "agent", 0), ("resume", "agent", 0)], 0),
    "an answer to what another process asked, after a run here": (
        [
            ("change", "agent", 2),
            ("approve", "editor", 0),
            ("ask", "client", 6),
            ("stop", "page", 0),
            ("ask", "agent", 2),
            ("approve", "client", 4),
        ],
        2,
    ),
    "edits are accepted": ([("mode", "terminal", 1), ("deny", "terminal", 0)], 1),
    "edits are accepted, not with a guard": (
        [
            ("stop", "page", 0),
            ("change", "agent", 10),
            ("ask", "agent", 1),
            ("mode", "terminal", 1),
            ("deny", "terminal", 0),
        ],
        0,
    ),
    "edits are accepted, not other calls": (
        [("stop", "page", 0), ("ask", "agent", 4), ("mode", "terminal", 1), ("deny", "terminal", 0)],
        0,
    ),
    "everything is denied": ([("mode", "terminal", 3), ("approve", "terminal", 0)], 0),
    "everything is allowed": ([("mode", "terminal", 2), ("deny", "terminal", 0)], 1),
}


@pytest.mark.parametrize("story", STORIES)
def test_what_runs_of_stories_that_are_told(processes: Processes, story: str) -> None:
    steps, ran = STORIES[story]
    assert play(processes, steps).ran == ran


@pytest.mark.parametrize("where", INTERFACES[:5])  # the other two ask and answer in one step
def test_what_a_person_allows_runs_from_every_interface(processes: Processes, where: str) -> None:
    steps = [("approve", where, 0), ("ask", where, 2), ("approve", where, 0), ("approve", where, 0)]
    assert play(processes, steps).ran == 2
    assert play(processes, [("deny", where, 0), ("approve", where, 0), ("resume", where, 0)]).ran == 0


SERVED: dict[str, tuple[list[tuple[str, str, int]], int]] = {
    "once": ([("ask", "served", 0), ("approve", "served", 0)], 1),
    "twice": ([("ask", "served", 0), ("approve", "served", 0), ("approve", "served", 0)], 1),
    "after a denial": ([("ask", "served", 0), ("deny", "served", 0), ("approve", "served", 0)], 0),
    "for other arguments": ([("ask", "served", 0), ("rewrite", "served", 0), ("approve", "served", 0)], 0),
    "before a guard": ([("ask", "served", 0), ("change", "agent", 2), ("approve", "served", 0)], 0),
    "before a guard, and to it": (
        [("ask", "served", 0), ("change", "agent", 2), ("approve", "served", 0), ("approve", "served", 0)],
        1,
    ),
}


@pytest.mark.parametrize("story", SERVED)
def test_what_runs_of_questions_of_an_mcp_server(processes: Processes, story: str) -> None:
    steps, ran = SERVED[story]
    assert play(processes, steps).served.ran == ran
