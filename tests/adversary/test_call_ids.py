"""Ids of calls, which providers choose: whatever is in them, an answer is for one call, and each is found."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import deep_sessions
import deep_subagents
import deep_web
import httpx
import pytest
from deep_acp.permissions import verdict
from deep_acp.updates import Translator
from deep_cli.run.approval import Approver, questions
from deep_sessions import (
    AgentDeps,
    DeepAgent,
    MemoryStore,
    Question,
    Sessions,
    answer_questions,
    questions_of,
)
from deep_sessions.events import ToolStarted
from deep_universe import agent_tools
from deep_web import Site, create_app
from deep_web.approvals import answers, approval_of
from hypothesis import given
from hypothesis import strategies as st
from pydantic_ai import DeferredToolRequests, DeferredToolResults, FunctionToolset, RunContext, Tool, ToolDenied
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import DeltaToolCall, DeltaToolCalls, FunctionModel

from deep_core import Kernel
from deep_core.plugin_api import call_ids, call_path
from tests.drawn import sample
from tests.plugins_by_hand import plugin

PAIRS: dict[str, tuple[str, ...]] = {
    # name: the ids of the agent's own call, of the call of its subagent, and of the subagent's own call; and, if
    # another subagent makes the first one, that of its call
    "plain": ("a", "t", "c"),
    "the path of the other": ("t/c", "t", "c"),
    "the path of the other, as it is written": ("t%2Fc", "t", "c"),
    "a slash in each": ("a/b", "t/u", "c/d"),
    "only the slashes differ": ("t", "t/u", "c"),
    "the slash elsewhere": ("x", "t/c", "d"),
    "nothing before a slash": ("/", "t", "/"),
    "a percent sign": ("%", "%25", "%2F"),
    "dots": ("..", "../t", "."),
    "signs of addresses": ("a?b#c", "t&u=v", "c+d e"),
    "the same id": ("c", "t", "c"),
    "the same id in two subagents": ("c", "t", "c", "u"),
    "the same path of two subagents": ("b/c", "t", "c", "t/b"),
}
each_pair = pytest.mark.parametrize("pair", sample(PAIRS, *[*PAIRS][::3], slow=PAIRS))


@dataclass
class Ran:
    """An agent that calls `act` itself and through a subagent; which of them ran."""

    own: str
    task: str
    below: str
    other_task: str = ""
    ran: list[str] = field(default_factory=list[str])

    def model(self) -> FunctionModel:
        def answer(messages: list[ModelMessage], info: Any) -> ModelResponse:
            first = next(part for part in messages[0].parts if part.part_kind == "user-prompt")
            if any(isinstance(message, ModelResponse) for message in messages):
                return ModelResponse([TextPart("done")])
            acts = {"own": self.own, "below": self.below}
            if first.content in acts:
                return ModelResponse([ToolCallPart("act", {"who": first.content}, acts[str(first.content)])])
            task = ToolCallPart("task", {"description": "below"}, self.task)
            own = ToolCallPart("act", {"who": "own"}, self.own)
            other = ToolCallPart("task", {"description": "own"}, self.other_task)
            return ModelResponse([other if self.other_task else own, task])

        async def stream(messages: list[ModelMessage], info: Any) -> AsyncIterator[str | DeltaToolCalls]:
            for number, part in enumerate(answer(messages, info).parts):
                if isinstance(part, ToolCallPart):
                    yield {
                        number: DeltaToolCall(part.tool_name, part.args_as_json_str(), tool_call_id=part.tool_call_id)
                    }
                else:
                    yield "done"

        return FunctionModel(answer, stream_function=stream, model_name="scripted")

    def plugins(self) -> list[object]:
        def act(ctx: RunContext[Any], who: str) -> str:
            self.ran.append(who)
            return who

        toolset = FunctionToolset([Tool(act, requires_approval=True)], id="acting")
        return [deep_sessions, deep_subagents, plugin("acting", toolsets=[toolset])]


@contextlib.contextmanager
def asked(pair: str) -> Iterator[tuple[Ran, DeepAgent, asyncio.Runner, DeferredToolRequests]]:
    """The agent, and what it asks a person."""
    ran = Ran(*PAIRS[pair])
    with asyncio.Runner() as runner, Kernel(plugins=ran.plugins(), discover=False) as kernel:
        deps = AgentDeps(model=ran.model(), session_store=MemoryStore(), kernel=kernel)
        agent = runner.run(DeepAgent.create(deps=deps))
        result = runner.run(agent.run("go", session_id="s"))
        assert result.requests is not None
        yield ran, agent, runner, result.requests
        runner.run(agent.close())


def decide(runner: asyncio.Runner, agent: DeepAgent, results: DeferredToolResults) -> None:
    runner.run(agent.decide("s", results))
    assert runner.run(agent.resume("s")).status == "completed"


@pytest.mark.parametrize("allowed", ["own", "below"])
@pytest.mark.parametrize("where", ["code", "page", "terminal", "editor"])
@each_pair
def test_an_answer_is_for_one_call(pair: str, where: str, allowed: str) -> None:
    with asked(pair) as (ran, agent, runner, requests):
        if where == "code":
            found = {question.path: question.args["who"] == allowed for question in questions_of(requests)}
            results = answer_questions(requests, {path: yes or ToolDenied("no") for path, yes in found.items()})
        elif where == "editor":
            asked_here = questions_of(requests)
            view = Translator("/work", lambda tool: (), lambda: None)
            views = [view.call_of(question) for question in asked_here]
            assert len({each.id for each in views}) == len(views)
            said = ["allow" if question.args["who"] == allowed else "reject" for question in asked_here]
            found = {each.path: chosen == "allow" for each, chosen in zip(asked_here, said, strict=True)}
            decided = {each.path: verdict(each, chosen, "/work") for each, chosen in zip(asked_here, said, strict=True)}
            results = answer_questions(requests, decided)
        elif where == "page":
            shown = runner.run(approval_of(requests, None))["questions"]
            found = {each["path"]: each["args"]["who"] == allowed for each in shown}
            results = answers(requests, {path: {"approve": yes} for path, yes in found.items()})
        else:
            waiting = runner.run(questions(requests, None))
            found = {each.call_id: each.args["who"] == allowed for each in waiting}
            approver = Approver("ask", lambda each: "yes" if each.args["who"] == allowed else "no", lambda made: None)
            results = approver.decide(requests, waiting)
        assert sorted(found.values()) == [False, True], "each call has a name of its own"
        decide(runner, agent, results)
        assert ran.ran == [allowed]


@each_pair
def test_the_page_shows_each_call_under_its_own_address(pair: str) -> None:
    with asked(pair) as (ran, agent, runner, requests):
        allowed = {question.path: True for question in questions_of(requests)}
        decide(runner, agent, answer_questions(requests, allowed))

        async def look() -> Mapping[str, str]:
            async with Sessions(agent) as runs:
                kernel = Kernel(plugins=[*ran.plugins(), deep_web], discover=False)
                site = Site(runs, kernel, lambda session: contextlib.nullcontext())  # type: ignore[arg-type]

                @contextlib.asynccontextmanager
                async def opened() -> Any:
                    yield site

                app = create_app(opened, token="t" * 43)
                shown: dict[str, str] = {}
                async with app.router.lifespan_context(app):
                    transport = httpx.ASGITransport(app)
                    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
                        async for event in runs.stream("s", follow=False):
                            if event.kind == "tool_started" and event.tool == "act":
                                address = f"/api/sessions/s/calls/{_encoded(event.call_id)}"
                                headers = {"Authorization": f"Bearer {'t' * 43}"}
                                answer = await client.get(address, params={"path": event.path}, headers=headers)
                                assert answer.status_code == 200, (event.call_id, answer.text)
                                shown[event.path] = answer.json()["args"]
                kernel.close()
                return shown

        found = runner.run(look())
        assert sorted(found.values()) == ['{"who":"below"}', '{"who":"own"}']


@dataclass
class Client:
    """A program that speaks AG-UI or Vercel AI: what it shows a person of each call, by the name that it was told."""

    protocol: str
    http: httpx.AsyncClient
    calls: dict[str, str] = field(default_factory=dict[str, str])
    asked: dict[str, str] = field(default_factory=dict[str, str])
    """The names of questions -> those of their calls."""
    results: dict[str, str] = field(default_factory=dict[str, str])

    async def send(self, session: str, allowed: str | None = None) -> None:
        """Send a message, or allow the calls that it shows with these arguments, and note what happens."""
        said = {name: json.loads(self.calls[call]).get("who") == allowed for name, call in self.asked.items()}
        if self.protocol == "ag-ui":
            resume = [
                {"interruptId": name, "status": "resolved", "payload": {"approved": yes}} for name, yes in said.items()
            ]
            message = {"id": "m1", "role": "user", "content": "go"}
            body: dict[str, Any] = {"threadId": session, "runId": "r", "state": {}, "tools": [], "context": []}
            body |= {"forwardedProps": {}, "resume": resume, "messages": [] if said else [message]}
        else:
            parts: list[Any] = [
                {"type": "tool-act", "toolCallId": call, "state": "approval-responded", "input": {}}
                | {"approval": {"id": name, "approved": said[name]}}
                for name, call in self.asked.items()
            ]
            message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "go"}]}
            answer = {"id": "m2", "role": "assistant", "parts": parts}
            body = {"trigger": "submit-message", "id": session, "messages": [answer if said else message]}
        self.asked.clear()
        text = (await self.http.post(f"/{self.protocol}", json=body)).text
        for line in text.splitlines():
            if line.startswith("data: {"):
                self._note(json.loads(line.removeprefix("data: ")))

    def _note(self, event: Mapping[str, Any]) -> None:
        call = event.get("toolCallId", "")
        match event["type"]:
            case "TOOL_CALL_START":
                assert call not in self.calls, "two calls have one name"
                self.calls[call] = ""
            case "TOOL_CALL_ARGS":
                self.calls[call] += event["delta"]
            case "tool-input-available":
                assert call not in self.calls, "two calls have one name"
                self.calls[call] = json.dumps(event["input"])
            case "TOOL_CALL_RESULT":
                self.results[call] = event["content"]
            case "tool-output-available" | "tool-output-denied" | "tool-output-error":
                self.results[call] = str(event.get("output"))
            case "tool-approval-request":
                self.asked[event["approvalId"]] = call
            case "RUN_FINISHED":
                interrupts = (event.get("outcome") or {}).get("interrupts", ())
                self.asked |= {interrupt["id"]: interrupt["toolCallId"] for interrupt in interrupts}
            case _:
                pass


@pytest.mark.parametrize("allowed", ["own", "below"])
@pytest.mark.parametrize("protocol", ["ag-ui", "vercel"])
@each_pair
def test_a_client_over_http_answers_the_call_that_it_shows(pair: str, protocol: str, allowed: str) -> None:
    ran = Ran(*PAIRS[pair])

    async def talk() -> Client:
        with Kernel(plugins=[*ran.plugins(), deep_web], discover=False) as kernel:
            deps = AgentDeps(model=ran.model(), session_store=MemoryStore(), kernel=kernel)
            agent = await DeepAgent.create(deps=deps)
            async with Sessions(agent) as runs:

                @contextlib.asynccontextmanager
                async def opened() -> Any:
                    yield Site(runs, kernel, lambda session: contextlib.nullcontext())  # type: ignore[arg-type]

                app = create_app(opened, token="t" * 43)
                async with app.router.lifespan_context(app):
                    transport = httpx.ASGITransport(app)
                    headers = {"Authorization": f"Bearer {'t' * 43}"}
                    async with httpx.AsyncClient(
                        transport=transport, base_url="http://127.0.0.1", headers=headers
                    ) as http:
                        session = (await http.post("/api/sessions")).json()["id"]
                        client = Client(protocol, http)
                        await client.send(session)
                        assert len({*client.asked.values()}) == 2
                        await client.send(session, allowed)
            await agent.close()
            return client

    client = asyncio.run(talk())
    assert ran.ran == [allowed]
    acts = {call: who for call, args in client.calls.items() if (who := json.loads(args).get("who"))}
    assert sorted(acts.values()) == ["below", "own"], "each call has one name"
    [call] = [call for call, who in acts.items() if who == allowed]
    assert client.results[call] == allowed
    assert {*acts} <= {*client.results}


def _encoded(text: str) -> str:
    """As the page's `encodeURIComponent` does; dots alone would be a step in the address."""
    from urllib.parse import quote

    return quote(text, safe="-_.!~*'()").replace(".", "%2E")


@given(
    st.lists(st.lists(st.sampled_from(["a", "/", "%", "%2F", "%25", "2F", ""]), max_size=4).map("".join), min_size=1)
)
def test_no_two_calls_have_one_path(ids: list[str]) -> None:
    assert call_ids(call_path(*ids)) == ids


ODD = st.sampled_from(["a", "a#2", "a#3", "a#2#2", "a/b", "a%2Fb", "", "#2"])


@given(st.lists(st.tuples(ODD, st.sampled_from(["", "r.0", "r.0/s.1"])), max_size=9))
def test_the_editor_has_an_id_of_its_own_for_each_call(calls: list[tuple[str, str]]) -> None:
    view = Translator("/work", lambda tool: (), lambda: None)
    shown: list[str] = []
    for call_id, path in calls:
        shown += [each.tool_call_id for each in view.translate(ToolStarted(call_id=call_id, path=path, tool="act"))]
        shown_over = [*view.close_calls("over")]
        assert len(shown_over) == 1
    assert len({*shown}) == len(calls)


@pytest.mark.parametrize("ids", [("c", "c"), ("t/c", "t", "c"), ("a#2", "a#2")])
def test_the_editor_asks_about_the_call_that_asks(ids: tuple[str, ...]) -> None:
    view = Translator("/work", lambda tool: (), lambda: None)
    own, below = ids[0], ids[-1]
    started = [ToolStarted(call_id=own, tool="act"), ToolStarted(call_id=below, path="r.1", tool="act")]
    at = [next(view.translate(each)).tool_call_id for each in started]
    questions = [Question(call_path(own), "act", "p", {"n": 1}), Question(call_path("t", below), "act", "p", {"n": 2})]
    assert [view.call_of(question).id for question in questions] == at
    assert [view.call_of(question).args["n"] for question in reversed(questions)] == [2, 1]


@pytest.mark.parametrize("approve", [True, False])
@each_pair
def test_a_client_of_mcp_decides_about_the_calls_of_subagents(pair: str, approve: bool) -> None:
    ran = Ran(*PAIRS[pair])

    async def call() -> str:
        with Kernel(plugins=ran.plugins(), discover=False) as kernel:
            async with agent_tools(kernel.create_agent(ran.model(), backend=None)) as tools:
                session = tools.session()
                outcome = await session.call("task", {"description": "below"})
                assert [each.arguments for each in outcome.waiting] == [{"who": "below"}]
                return (await session.decide(outcome, approve)).status

    assert asyncio.run(call()) == ("done" if approve else "refused")
    assert ran.ran == (["below"] if approve else [])
