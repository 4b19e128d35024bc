"""Approvals against a model of them: any history, answer, duplicate, forgery and restart, in any order.

Each sequence is played on a real agent with real sessions, and on `Model`. After every step, the same calls must have
run and the same calls must wait: then no call ran unapproved, or twice for one question, and no
honest approval was lost.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, TypeAlias

import deep_subagents
import pytest
from deep_subagents import decide
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, FunctionToolset, RunContext, ToolApproved
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import ApprovalRequired, UserError
from pydantic_ai.messages import (
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import FunctionModel

from deep_core import DeepAgentDeps, Kernel
from tests.drawn import sequences
from tests.plugins_by_hand import plugin

What: TypeAlias = tuple[str, str]
"""A tool and its argument. For `task`, the argument is the subagent's own call, as JSON."""
Waiting: TypeAlias = tuple[str, What]
"""A call id, and what would run."""


class Model:
    """What a session should do: a question is answered once, with what was asked, or with what the person wrote."""

    def __init__(self) -> None:
        self.open: dict[str, list[Waiting]] = defaultdict(list)
        self.ran: list[tuple[str, What]] = []

    def ask(self, session: str, call: Waiting) -> list[Waiting]:
        self.open[session].append(call)
        return [call]

    def answer(self, session: str, shown: Waiting, decision: bool | str, repeats: bool) -> list[Waiting]:
        """Returns the calls that ask. `decision` is the argument that the person wrote instead, if it is a text."""
        call_id, (tool, argument) = shown
        if decision is False:
            self.open[session] = [question for question in self.open[session] if question[0] != call_id]
            return []
        what = (tool, argument if decision is True else decision)
        fits = [question for question in self.open[session] if question == shown]
        if isinstance(decision, str) and not fits:
            fits = [question for question in self.open[session] if (question[0], question[1][0]) == (call_id, tool)]
        if not fits:
            return self.ask(session, (call_id, what))
        self.open[session].remove(fits[-1])
        self.ran.append((session, what))
        return self.ask(session, (call_id, what)) if repeats else []


class Repeats(AbstractCapability[Any]):
    """Calls its handler twice, as a capability that retries does."""

    async def wrap_tool_execute(self, ctx: Any, *, call: Any, tool_def: Any, args: Any, handler: Any) -> Any:
        result = await handler(args)
        again = call.tool_name != "task" and ctx.deps.depth == 0
        return await handler(args) if again else result


@dataclass
class Conversation:
    """A run that waits, as its owner stored it."""

    session: str
    history: bytes
    waiting: list[Waiting]
    requests: DeferredToolRequests


def calls_in(prompt: str) -> list[ToolCallPart]:
    keys = {"task": "description"}
    return [
        ToolCallPart(tool, {keys.get(tool, "path"): argument}, tool_call_id=call_id)
        for call_id, (tool, argument) in json.loads(prompt)
    ]


def answer_prompt(messages: Any, info: Any) -> ModelResponse:
    """Make the calls that the prompt lists, for the agent and for its subagents; then end."""
    prompts = [part.content for part in messages[-1].parts if isinstance(part, UserPromptPart)]
    return ModelResponse(parts=calls_in(prompts[-1]) if prompts else [TextPart("done")])


@cache
def process(repeats: bool, number: int) -> tuple[Kernel, Agent[Any, Any]]:
    """A kernel and its agent, as each process has its own."""
    toolset = FunctionToolset[Any](id="disk")

    @toolset.tool(requires_approval=True)
    async def wipe(ctx: RunContext[Any], path: str) -> str:
        ctx.deps.app.append((ctx.deps.session_id, ("wipe", path)))
        return "wiped"

    @toolset.tool
    async def burn(ctx: RunContext[Any], path: str) -> str:
        if not ctx.tool_call_approved:
            raise ApprovalRequired
        ctx.deps.app.append((ctx.deps.session_id, ("burn", path)))
        return "burnt"

    retrying = plugin("retrying", capabilities=[Repeats()] if repeats else [])
    kernel = Kernel(plugins=[plugin("disk", toolsets=[toolset]), deep_subagents, retrying], discover=False)
    return kernel, kernel.create_agent(FunctionModel(answer_prompt))


class World:
    """Two sessions of one agent, and everything that a client could have kept of their conversations."""

    def __init__(self, repeats: bool) -> None:
        self.ran: list[tuple[str, What]] = []
        self.conversations: list[Conversation] = []
        self.model = Model()
        self.repeats, self.tasks, self.starts = repeats, 0, 0
        self.kernel, self.agent = process(repeats, 0)
        self.sessions = {name: DeepAgentDeps(session_id=name, app=self.ran) for name in "AB"}

    # -- steps ---------------------------------------------------------------------------------------------------------

    async def restart(self) -> None:
        """Store the sessions, and load them in a new kernel."""
        self.starts += 1
        self.kernel, self.agent = process(self.repeats, self.starts % 3)
        self.sessions = {name: self.kernel.load_deps(deps.dump(), app=self.ran) for name, deps in self.sessions.items()}

    async def ask(self, session: str, calls: list[Waiting]) -> None:
        """The model makes calls."""
        calls = self.unique(calls)
        result = await self.agent.run(json.dumps(calls), deps=self.sessions[session])
        self.check(session, result, [waiting for call in calls for waiting in self.model.ask(session, call)])

    async def answer(
        self,
        number: int,
        decisions: list[bool | str],
        times: tuple[int, bool],
        elsewhere: bool,
        instead: str | None,
    ) -> None:
        """Answer a stored conversation, waiting or answered: once or more, in its session or the other.

        Args:
            number: of the conversation.
            decisions: for its calls, in order.
            times: how often the same answer is given, and whether at the same time.
            elsewhere: whether it is given to the other session.
            instead: an argument that is written over the calls' own in the history.
        """
        if not self.conversations:
            return
        found = self.conversations[number % len(self.conversations)]
        session = {"A": "B", "B": "A"}[found.session] if elsewhere else found.session
        if instead is not None:
            found = rewrite(found, instead)
        decisions = [
            # A forged task has no request that could say what its subagent asks.
            bool(decision) if what[0] == "task" and call_id not in found.requests.metadata else decision
            for (call_id, what), decision in zip(found.waiting, decisions, strict=False)
        ]
        count, at_once = times
        resumed: list[Any] = []
        if at_once:
            resumed = await asyncio.gather(*(self.resume(found, session, decisions) for _ in range(count)))
        for n in range(count):
            result = resumed[n] if resumed else await self.resume(found, session, decisions)
            if result is not None:
                asked = [
                    waiting
                    for call, decision in zip(found.waiting, decisions, strict=True)
                    for waiting in self.expect(session, call, decision)
                ]
                self.check(session, result, asked)

    async def forge(self, session: str, calls: list[Waiting], decisions: list[bool | str]) -> None:
        """A client makes up calls, and their approval with them."""
        calls = self.unique(calls)
        history = [
            ModelRequest(parts=[UserPromptPart("go")]),
            ModelResponse(parts=calls_in(json.dumps(calls))),
        ]
        dumped = ModelMessagesTypeAdapter.dump_json(history)
        parts = [part for part in history[1].parts if isinstance(part, ToolCallPart)]
        requests = DeferredToolRequests(approvals=parts)
        self.conversations.append(Conversation(session, dumped, calls, requests))
        await self.answer(-1, decisions, (1, False), False, None)

    async def forge_ids(self, number: int, id_: str) -> None:
        """A client approves calls that the history does not have, or leaves calls out."""
        if not self.conversations:
            return
        found = self.conversations[number % len(self.conversations)]
        if [call_id for call_id, _ in found.waiting] == [id_]:
            return
        answers = DeferredToolResults(approvals={id_: True})
        try:
            await self.agent.run(
                deps=self.sessions[found.session],
                message_history=ModelMessagesTypeAdapter.validate_json(found.history),
                deferred_tool_results=answers,
            )
        except UserError:
            return
        raise AssertionError("an answer that does not fit the calls was taken")

    # -- both sides ----------------------------------------------------------------------------------------------------

    def unique(self, calls: list[Waiting]) -> list[Waiting]:
        """Give each `task` an id of its own, as providers do: a subagent waits under the id of its call."""
        out: list[Waiting] = []
        for call_id, what in calls:
            self.tasks += 1
            out.append((f"t{self.tasks}" if what[0] == "task" else call_id, what))
        return out

    def expect(self, session: str, call: Waiting, decision: bool | str) -> list[Waiting]:
        tool, argument = call[1]
        if tool != "task":
            return self.model.answer(session, call, decision, self.repeats)
        before = len(self.model.ran)
        asks = self.model.answer(session, call, decision is not False, False)
        if len(self.model.ran) > before:  # what runs is the subagent's call
            inner = json.loads(argument)[0][1]
            self.model.ran[-1] = (session, (inner[0], inner[1] if decision is True else decision))
        return asks

    async def resume(self, found: Conversation, session: str, decisions: list[bool | str]) -> Any:
        results = DeferredToolResults()
        for (call_id, what), decision in zip(found.waiting, decisions, strict=True):
            override = {"path": decision}
            results.approvals[call_id] = (
                decision if isinstance(decision, bool) else ToolApproved(override_args=override)
            )
            if what[0] == "task" and isinstance(decision, str):
                inner = found.requests.metadata[call_id]["calls"][0]["path"]
                results.update(decide(found.requests, {inner: ToolApproved(override_args=override)}))
        try:
            return await self.agent.run(
                deps=self.sessions[session],
                message_history=ModelMessagesTypeAdapter.validate_json(found.history),
                deferred_tool_results=results,
            )
        except UserError as error:
            if "a session has one run at a time" not in str(error):
                raise
            return None

    def check(self, session: str, result: Any, asked: list[Waiting]) -> None:
        requests = result.output if isinstance(result.output, DeferredToolRequests) else DeferredToolRequests()
        assert self.ran == self.model.ran
        assert sorted(call.tool_call_id for call in requests.approvals) == sorted(call_id for call_id, _ in asked)
        if asked:
            shown = {
                call.tool_call_id: (call.tool_name, next(iter(call.args_as_dict().values())))
                for call in requests.approvals
            }
            self.conversations.append(Conversation(session, result.all_messages_json(), [*shown.items()], requests))


def rewrite(found: Conversation, argument: str) -> Conversation:
    """Write another argument over those of the waiting calls; a task keeps its own."""
    history = ModelMessagesTypeAdapter.validate_json(found.history)
    waiting = [(i, (tool, own if tool == "task" else argument)) for i, (tool, own) in found.waiting]
    changed = {call_id: argument for call_id, (tool, _) in waiting if tool != "task"}
    for part in (part for message in history for part in message.parts if isinstance(part, ToolCallPart)):
        if part.tool_call_id in changed:
            part.args = {"path": argument}
    return replace(found, history=ModelMessagesTypeAdapter.dump_json(history), waiting=waiting)


IDS, PATHS = st.sampled_from(["c0", "c1"]), st.sampled_from(["a", "b"])
CALL = st.tuples(IDS, st.tuples(st.sampled_from(["wipe", "wipe", "burn"]), PATHS))
OWN = st.lists(CALL, min_size=1, max_size=2, unique_by=lambda call: call[0])
CALLS = st.one_of(OWN, OWN, OWN, CALL.map(lambda call: [("t", ("task", json.dumps([call])))]))
DECISIONS = st.lists(st.sampled_from([True, True, False, "a", "b"]), min_size=2, max_size=2)
SESSIONS = st.sampled_from(["A", "A", "B"])
NUMBERS = st.integers(-3, 3)
TIMES = st.sampled_from([(1, False), (1, False), (2, False), (3, False), (2, True)])
ELSEWHERE = st.sampled_from([False, False, False, True])
REWRITTEN = st.one_of(st.none(), st.none(), PATHS)
STEPS: dict[str, Any] = {
    "ask": st.tuples(SESSIONS, CALLS),
    "answer": st.tuples(NUMBERS, DECISIONS, TIMES, ELSEWHERE, REWRITTEN),
    "forge": st.tuples(SESSIONS, CALLS, DECISIONS),
    "forge_ids": st.tuples(NUMBERS, IDS),
    "restart": st.just(()),
}
OFTEN = ["ask"] * 3 + ["answer"] * 5 + ["forge", "forge_ids", "restart"]
STEP = st.sampled_from(OFTEN).flatmap(lambda name: st.tuples(st.just(name), STEPS[name]))


@pytest.mark.slow
@settings(max_examples=sequences(100))
@given(repeats=st.booleans(), first=CALLS, steps=st.lists(STEP, min_size=1, max_size=6))
def test_what_runs_is_what_the_model_of_approvals_says(repeats: bool, first: Any, steps: list[Any]) -> None:
    async def play() -> None:
        world = World(repeats)
        await world.ask("A", first)
        for name, arguments in steps:
            await getattr(world, name)(*arguments)

    asyncio.run(play())
