"""The plugin in a deep agent: few summaries, nothing lost, live texts said again, sessions apart, stable prefixes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from deep_backends import memory_backend
from deep_summarization import LAST_FAILURE, is_summary
from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelResponse,
    TextPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.usage import UsageLimits
from pydantic_ai.workspaces import ReadOnlyWorkspace, Workspace

from deep_core import DeepAgentDeps, Kernel, create_default_deps
from plugins.summarization.tests.histories import orphans, talk
from tests.stubs import (
    AnthropicStub,
    Call,
    OpenAIStub,
    RequestView,
    Script,
    anthropic_model,
    function_model,
    openai_model,
)
from tests.stubs.wire import wire_prefix

pytestmark = pytest.mark.anyio
MakeAgent = Callable[..., Agent[Any, Any]]
NO_LIMIT = UsageLimits(request_limit=None)
ASKED = "Your text will replace it"


class Talker(FunctionModel):
    """Answers at length; summarises when asked. `summaries` counts, `histories` are what it was sent otherwise."""

    def __init__(self, words: int, summary: Callable[[str], str] = lambda _: "In short. " * 100) -> None:
        self.summaries: list[str] = []
        self.histories: list[list[ModelMessage]] = []

        def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            text = str(messages[-1].parts[0].content)
            if ASKED in text:
                self.summaries.append(text)
                return ModelResponse(parts=[TextPart(summary(text))])
            self.histories.append(messages)
            return ModelResponse(parts=[TextPart("a" * words)])

        super().__init__(answer, model_name="talker")


async def converse(
    agent: Agent[Any, Any], deps: DeepAgentDeps[Any], prompts: list[str], history: list[ModelMessage] | None = None
) -> list[ModelMessage]:
    for prompt in prompts:
        history = (await agent.run(prompt, deps=deps, message_history=history)).all_messages()
    return history or []


@pytest.mark.slow
async def test_120_turns_of_900_tokens_in_60k_take_at_most_four_summaries(make_agent: MakeAgent) -> None:
    model = Talker(1_800)
    agent = make_agent(model, summarization={"max_input_tokens": 60_000})
    backend = memory_backend()
    history = await converse(agent, create_default_deps(backend), [f"{n} " + "q" * 1_800 for n in range(120)])
    assert 1 <= len(model.summaries) <= 4
    assert len(model.histories) == 120
    assert "0 qqq" in str(history[0]), "the first request is there word for word"
    files = sorted(path for path in backend.snapshot() if path.endswith(".json"))
    assert len(files) == len(model.summaries)
    assert [path.split("-")[-2] for path in files] == [f"{n:03}" for n in range(1, len(files) + 1)]
    kept = [m for path in files for m in ModelMessagesTypeAdapter.validate_json(backend.snapshot()[path])]
    said = {str(part.content) for message in [*kept, *history] for part in message.parts}
    assert all(any(text.startswith(f"{n} qqq") for text in said) for n in range(120)), "nothing is lost"
    assert re.search(r"are in \.deep/sessions/\S+-messages-00\d-\S+\.json \(JSON\)", str(history[0]))


async def test_todos_are_said_again_and_the_slot_is_not_shared(make_agent: MakeAgent) -> None:
    todos = [{"content": "Paint the shed", "status": "pending"}]
    seen: list[RequestView] = []

    def note(view: RequestView) -> str:
        seen.append(view)
        return "x" * 800

    def answer(view: RequestView) -> Any:
        return "A summary." if ASKED in view.prompt else note(view)

    script = Script(Call("write_todos", {"todos": todos}), then=answer)
    agent = make_agent(function_model(script), summarization={"trigger": ["messages", 12], "keep": ["messages", 4]})
    history = await converse(agent, create_default_deps(), [f"turn {n}" for n in range(8)])
    summaries = list(filter(is_summary, history[0].parts))
    assert len(summaries) == 1
    assert "Paint the shed" not in str(summaries[0].content)
    assert str(history).count("Paint the shed") >= 1, "said again after the cut"
    assert all("Paint the shed" in str(view.messages) for view in seen[1:])


@pytest.mark.slow
@pytest.mark.parametrize(("stub", "make_model"), [(OpenAIStub, openai_model), (AnthropicStub, anthropic_model)])
async def test_at_the_wire_only_the_summarised_request_begins_anew(
    make_agent: MakeAgent, stub: Any, make_model: Any
) -> None:
    def answer(view: RequestView) -> Any:
        if ASKED in view.prompt:
            return "What happened so far."
        if view.index % 3 == 0:
            return [
                Call("write_todos", {"todos": [{"content": f"Step {view.index}", "status": "pending"}]}),
                Call("ls"),
            ]
        return Call("ls") if view.index % 3 == 1 else f"Answer {view.index}"

    with stub(Script(then=answer)) as server:
        agent = make_agent(
            make_model(server),
            summarization={"trigger": ["messages", 16], "keep": ["messages", 6]},
            system_prompt="You are terse.",
        )
        await converse(agent, create_default_deps(), [f"turn {n}" for n in range(14)])
        bodies = [body for body in server.requests if ASKED not in json.dumps(body)]
        asked = len(server.requests) - len(bodies)
    broken = [diff for before, after in pairwise(bodies) if (diff := wire_prefix(before, after))]
    assert asked >= 2
    assert len(broken) == asked, [str(diff) for diff in broken]
    assert all(diff.path.startswith("messages[") for diff in broken), [str(diff) for diff in broken]
    assert all("You are terse." in json.dumps(body) for body in bodies)
    assert "first_request" not in json.dumps(bodies), "notes are not sent"
    assert "Summary by a model" in json.dumps(bodies[-1])
    assert "What happened so far." in json.dumps(bodies[-1])


async def test_a_failing_summary_is_recorded_and_the_run_continues(kernel: Kernel, make_agent: MakeAgent) -> None:
    model = Talker(400, summary=lambda _: "")
    agent = make_agent(model, summarization={"trigger": ["messages", 5], "keep": ["messages", 2]})
    history = talk(4)
    before = ModelMessagesTypeAdapter.dump_json(history)
    result = await agent.run("go on", deps=create_default_deps(), message_history=history)
    assert ModelMessagesTypeAdapter.dump_json(history) == before
    assert ModelMessagesTypeAdapter.dump_json(result.all_messages()[: len(history)]) == before
    [incident] = kernel.incidents
    assert incident.plugin == "summarization"
    assert "the answer has no text" in str(incident)
    assert "the history stays as it was" in str(incident)


async def test_a_failure_pauses_the_session_it_was_in_and_no_other(make_agent: MakeAgent) -> None:
    model = Talker(40, summary=lambda _: "")
    agent = make_agent(model, summarization={"trigger": ["messages", 41], "keep": ["messages", 2]})
    first, second = create_default_deps(), create_default_deps()
    history = talk(20, chars=2_000)
    for deps in (first, second):
        await converse(agent, deps, ["go on", "and on"], history)
    assert len(model.summaries) == 2, "once in each session, not at every request"
    assert "no text" in first.state[LAST_FAILURE].reason
    assert first.state[LAST_FAILURE] is not second.state[LAST_FAILURE]


@pytest.mark.slow
async def test_interleaved_sessions_never_cross(make_agent: MakeAgent) -> None:
    model = Talker(300, summary=lambda text: " ".join(sorted(set(re.findall(r"canary-\d+-", text)))))
    agent = make_agent(model, summarization={"trigger": ["messages", 8], "keep": ["messages", 4]})
    sessions = [create_default_deps(memory_backend()) for _ in range(20)]

    async def one(number: int) -> list[ModelMessage]:
        history: list[ModelMessage] | None = None
        for turn in range(12):
            history = await converse(agent, sessions[number], [f"canary-{number}- turn {turn}"], history)
            await asyncio.sleep(0)
        return history or []

    histories = await asyncio.gather(*map(one, range(20)))
    assert len(model.summaries) >= 40
    for number, history in enumerate(histories):
        backend: Any = sessions[number].backend
        everything = str(history) + str(backend.snapshot()) + sessions[number].dump()
        assert set(re.findall(r"canary-(\d+)-", everything)) == {str(number)}


@pytest.mark.slow
async def test_a_long_turn_of_tool_calls_stays_valid_and_bounded(make_agent: MakeAgent) -> None:
    sizes: list[int] = []

    def answer(view: RequestView) -> Any:
        if ASKED in view.prompt:
            return "Looked at much."
        sizes.append(sum(len(message.text) for message in view.messages))
        return [Call("look", {"n": view.index}), Call("look", {"n": -view.index})] if len(sizes) < 60 else "done"

    def look(n: int) -> str:
        return f"{n}" * 1_000

    agent = make_agent(
        function_model(Script(then=answer)), tools=[Tool(look)], summarization={"max_input_tokens": 10_000}
    )
    result = await agent.run("Look at everything in /srv.", deps=create_default_deps(), usage_limits=NO_LIMIT)
    assert result.output == "done"
    assert orphans(result.all_messages()) == ([], [])
    assert max(sizes) < 36_000
    assert "Look at everything in /srv." in str(result.all_messages()[0])


async def test_what_could_not_be_stored_is_said(make_agent: MakeAgent, caplog: pytest.LogCaptureFixture) -> None:
    agent = make_agent(Talker(400), summarization={"trigger": ["messages", 5], "keep": ["messages", 2]})
    deps = create_default_deps(ReadOnlyWorkspace(Workspace(memory_backend())))
    result = await agent.run("go on", deps=deps, message_history=talk(8, chars=900))
    head = str(result.all_messages()[0])
    assert "were not stored: the workspace could not store them (WorkspaceReadOnlyError)" in head
    assert "could not be stored" in caplog.text
