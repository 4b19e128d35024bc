"""Several people decide one call at the same time: one is accepted, and what that one said is what happens."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import deep_ask
import pytest
from deep_sessions import (
    AgentDeps,
    DeepAgent,
    Mail,
    MemoryStore,
    NotPending,
    SessionInfo,
    Sessions,
    SessionStore,
    answer_questions,
    open_store,
    questions_of,
    rewind,
)
from deep_sessions.decisions import take_decisions
from deep_sessions.fold import Fold, Run
from pydantic_ai import DeferredToolRequests, DeferredToolResults, ToolApproved, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import Kernel
from tests.drawn import many

pytestmark = pytest.mark.anyio
VOTES: list[Any] = [True, ToolDenied("no"), ToolApproved(override_args={"page": "edited"}), False]
RAN = {0: "x", 2: "edited"}
"""What the tool gets, by the vote that was accepted."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(params=["memory", "sqlite", pytest.param("postgresql", marks=pytest.mark.needs("PostgreSQL"))])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncGenerator[SessionStore]:
    if request.param == "memory":
        opened: SessionStore = MemoryStore()
    elif request.param == "sqlite":
        opened = open_store(f"sqlite:///{tmp_path}/s.db")
    else:
        opened = open_store(request.getfixturevalue("postgresql").create_database())
    yield opened
    await opened.aclose()


def scripted(*calls: ToolCallPart) -> FunctionModel:
    """Makes the calls, then ends."""

    def says(messages: list[ModelMessage]) -> list[ToolCallPart]:
        return [] if any(isinstance(message, ModelResponse) for message in messages) else [*calls]

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(says(messages) or [TextPart("end")])

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str | DeltaToolCalls]:
        made = says(messages)
        for index, call in enumerate(made):
            yield {index: DeltaToolCall(call.tool_name, call.args_as_json_str(), tool_call_id=call.tool_call_id)}
        if not made:
            yield "end"

    return FunctionModel(answer, stream_function=stream)


class Desk:
    """A tool that asks, and two interfaces over one store."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def publish(self, page: str) -> str:
        self.ran.append(page)
        return "published"

    @asynccontextmanager
    async def interfaces(
        self,
        store: SessionStore,
        *calls: ToolCallPart,
        count: int = 2,
        plugins: Any = (),
        model: FunctionModel | None = None,
    ) -> AsyncGenerator[list[Sessions]]:
        agents: list[DeepAgent] = []
        opened: list[Sessions] = []
        for _ in range(count):
            deps = AgentDeps(
                model=model or scripted(*calls), session_store=store, runtime="memory", kernel=Kernel(read_config=False)
            )
            config, tools = {"interrupt_on": {"publish": True}}, [self.publish]
            agents.append(await DeepAgent.create(config=config, deps=deps, tools=tools, plugins=plugins))
            opened.append(Sessions(agents[-1]))
        try:
            yield opened
        finally:
            for sessions, agent in zip(opened, agents, strict=True):
                await sessions.close()
                await agent.close()


async def ask(sessions: Sessions, name: str) -> None:
    await sessions.send(name, "go")
    result = await sessions.wait(name)
    assert result is not None
    assert result.status == "awaiting_human", result.error


async def finished(interfaces: list[Sessions], name: str) -> None:
    """Wait until whichever interface continued the run has ended it."""
    async with asyncio.timeout(120):
        while (await interfaces[0].agent.store.info(name)).status != "idle":
            for sessions in interfaces:
                await sessions.wait(name)
            await asyncio.sleep(0.005)


def accepted(told: list[Any]) -> list[int]:
    """Return which were accepted; the others were told why not."""
    for each in told:
        assert each is None or isinstance(each, NotPending), each
    return [index for index, each in enumerate(told) if each is None]


async def test_one_answer_of_several_interfaces_is_accepted_and_is_what_happens(store: SessionStore) -> None:
    desk = Desk()
    async with desk.interfaces(store, ToolCallPart("publish", {"page": "x"}, "c1")) as interfaces:
        for number in range(many(7, 1_000)):
            desk.ran.clear()
            name = f"s{number}"
            await ask(interfaces[0], name)
            deciders = 2 + number % 7
            votes = [(number + n) % len(VOTES) for n in range(deciders)]
            told = await asyncio.gather(
                *(
                    interfaces[n % 2].decide(name, DeferredToolResults(approvals={"c1": VOTES[vote]}))
                    for n, vote in enumerate(votes)
                ),
                return_exceptions=True,
            )
            (one,) = accepted(told)
            await finished(interfaces, name)
            assert desk.ran == ([RAN[votes[one]]] if votes[one] in RAN else []), f"round {number}: {votes}"


async def test_calls_are_decided_one_by_one_and_each_once(store: SessionStore) -> None:
    desk = Desk()
    calls = [ToolCallPart("publish", {"page": name}, name) for name in ("a", "b", "c")]
    async with desk.interfaces(store, *calls) as interfaces:
        await ask(interfaces[0], "s")
        said: dict[str, bool] = {}
        for number, call in enumerate(calls):
            votes = [bool(number % 2), not number % 2]
            told = await asyncio.gather(
                *(
                    sessions.decide("s", DeferredToolResults(approvals={call.tool_call_id: vote}))
                    for sessions, vote in zip(interfaces, votes, strict=True)
                ),
                return_exceptions=True,
            )
            (one,) = accepted(told)
            said[call.tool_call_id] = votes[one]
        await finished(interfaces, "s")
        assert sorted(desk.ran) == sorted(name for name, vote in said.items() if vote)
        with pytest.raises(NotPending):
            await interfaces[1].decide("s", DeferredToolResults(approvals={"a": True}))


async def test_one_answer_to_a_question_of_the_model_is_what_it_reads(store: SessionStore) -> None:
    desk = Desk()
    call = ToolCallPart("ask_user", {"question": "Which color?"}, "q1")
    plugins = [deep_ask.AskOptions(offer=True)]
    async with desk.interfaces(store, call, plugins=plugins) as interfaces:
        await ask(interfaces[0], "s")
        requests = await interfaces[1].waiting("s")
        assert requests is not None
        (question,) = questions_of(requests)
        words = ["red", "blue", "green"]
        told = await asyncio.gather(
            *(
                interfaces[n % 2].decide("s", answer_questions(requests, {question.path: word}))
                for n, word in enumerate(words)
            ),
            return_exceptions=True,
        )
        (one,) = accepted(told)
        await finished(interfaces, "s")
        results = [p for m in await interfaces[0].history("s") for p in m.parts if isinstance(p, ToolReturnPart)]
        assert [words[one] in str(part.content) for part in results] == [True]


def asks_again(*pages: str) -> FunctionModel:
    """Asks to publish the pages one after the other, each call with the same id, as some servers of local models do."""

    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncGenerator[str | DeltaToolCalls]:
        made = sum(isinstance(message, ModelResponse) for message in messages)
        if made < len(pages):
            yield {0: DeltaToolCall("publish", f'{{"page": "{pages[made]}"}}', tool_call_id="c1")}
        else:
            yield "end"

    return FunctionModel(stream_function=stream)


@pytest.mark.parametrize("second", ["other", "first"])
async def test_a_late_answer_does_not_reach_a_later_question_of_the_same_call_id(
    store: SessionStore, second: str
) -> None:
    """Neither with other arguments, nor with the same: a person who says yes once has not said it twice."""
    desk = Desk()
    yes = DeferredToolResults(approvals={"c1": True})
    async with desk.interfaces(store, model=asks_again("first", second)) as interfaces:
        await ask(interfaces[0], "s")
        asked = await interfaces[1].waiting("s")
        assert asked is not None
        await interfaces[0].decide("s", yes, approval=asked.approval)
        result = await interfaces[0].wait("s")
        assert result is not None
        assert desk.ran == ["first"]
        for late in interfaces:
            with pytest.raises(NotPending, match="not an answer to what is asked now; what you answered was not used"):
                await late.decide("s", yes, approval=asked.approval)
        assert desk.ran == ["first"]
        again = await interfaces[1].waiting("s")
        assert again is not None
        assert result.requests == again  # the process that ran it, and one that read it, name one question
        await interfaces[1].decide("s", yes, approval=again.approval)
        await finished(interfaces, "s")
        assert desk.ran == ["first", second]
        with pytest.raises(NotPending):
            await interfaces[1].decide("s", yes, approval=again.approval)


async def test_a_rewind_and_a_new_session_of_the_same_name_ask_anew(store: SessionStore) -> None:
    desk = Desk()
    yes = DeferredToolResults(approvals={"c1": True})
    async with desk.interfaces(store, ToolCallPart("publish", {"page": "x"}, "c1")) as interfaces:
        sessions, names = interfaces[0], list[str]()
        await sessions.send("s", "go", run_id="r")
        await sessions.wait("s")
        waiting = (await store.info("s")).seq
        for step in ("asked", "rewound", "made again"):
            if step == "rewound":
                await rewind(store, "s", to=waiting)
            elif step == "made again":
                await store.delete("s")
                await sessions.send("s", "go", run_id="r")
                await sessions.wait("s")
            requests = await sessions.waiting("s")
            if requests is None:  # a rewind cuts off calls without a result
                continue
            for old in names:
                with pytest.raises(NotPending):
                    await sessions.decide("s", yes, approval=old)
            names.append(requests.approval)
        assert len({*names}) == len(names) >= 2
        assert desk.ran == []


async def test_an_edit_beside_a_question_does_not_change_its_name(store: SessionStore) -> None:
    desk = Desk()
    async with desk.interfaces(store, ToolCallPart("publish", {"page": "x"}, "c1")) as interfaces:
        await ask(interfaces[0], "s")
        asked = await interfaces[0].waiting("s")
        assert asked is not None
        await interfaces[1].rename("s", "Publish")
        await interfaces[1].decide("s", DeferredToolResults(approvals={"c1": True}), approval=asked.approval)
        await finished(interfaces, "s")
        assert desk.ran == ["x"]


async def test_an_answer_that_came_second_says_so_in_words(store: SessionStore) -> None:
    desk = Desk()
    async with desk.interfaces(store, ToolCallPart("publish", {"page": "x"}, "c1")) as interfaces:
        await ask(interfaces[0], "s")
        lease = await store.acquire("s")  # another process is about to continue: nothing may run yet
        await interfaces[0].agent.decide("s", DeferredToolResults(approvals={"c1": True}))
        with pytest.raises(NotPending, match="'c1' was decided already; what you answered was not used"):
            await interfaces[1].agent.decide("s", DeferredToolResults(approvals={"c1": False}))
        await store.release(lease)
        await interfaces[1].resume("s")
        await finished(interfaces, "s")
        assert desk.ran == ["x"]


def test_a_decision_of_the_journal_comes_before_one_that_waits() -> None:
    """A store of another author may take a decision on a call whose mail was read."""
    asked = DeferredToolRequests(approvals=[ToolCallPart("publish", {}, "a"), ToolCallPart("publish", {}, "b")])
    run = Run("r", status="paused", requests=asked, decisions={"a": {"approve": False}})
    said = b'{"a": {"approve": true}, "b": {"approve": true}}'
    state = Fold(SessionInfo("s", None, "idle", 0.0, 0.0, 1), run=run, mail=[Mail(1, "decision", said, 0.0)])
    take_decisions(state)
    assert run.decisions == {"a": {"approve": False}, "b": {"approve": True}}
