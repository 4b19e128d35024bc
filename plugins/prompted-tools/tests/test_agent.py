"""Whole tasks of a deep agent whose model only writes text: the demo, approvals, subagents, live text."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import deep_demo
import deep_sessions
import pytest
from deep_backends import local_backend
from deep_demo import copy_sample_project
from deep_prompted_tools import PromptedTools, PromptedToolsOptions
from deep_sessions import MemoryStore, Runner, session_capabilities
from deep_universe import TextDriver, ToolCall
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults, ToolDenied
from pydantic_ai.conversation import ConversationTypeAdapter
from pydantic_ai.exceptions import CallDeferred
from pydantic_ai.messages import ModelMessage, TextPart, ToolCallPart, ToolReturnPart

from deep_core import ConfigError, Kernel, PromptSection, create_default_deps, hookimpl
from tests.drawn import sample
from tests.text_models import AsText, Native, Request, TextModel, dialects, markup_in

pytestmark = pytest.mark.anyio
Maker = Callable[..., Agent[Any, Any]]
HERMES: TextDriver = dialects()[0]
every_dialect = pytest.mark.parametrize("driver", dialects(), ids=lambda driver: driver.name)
either = pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])


def write(driver: TextDriver, *wanted: tuple[str, dict[str, Any]]) -> str:
    return driver.encode_calls([ToolCall(f"c{index}", name, args) for index, (name, args) in enumerate(wanted)])


def called(messages: list[ModelMessage]) -> list[str]:
    return [part.tool_name for message in messages for part in message.parts if isinstance(part, ToolCallPart)]


def outcomes(messages: list[ModelMessage]) -> list[tuple[str, str]]:
    parts = [part for message in messages for part in message.parts if isinstance(part, ToolReturnPart)]
    return [(part.outcome, str(part.content)) for part in parts]


async def run(agent: Agent[Any, Any], streamed: bool, prompt: str | None, **settings: Any) -> Any:
    """The result; no event of text may hold markup."""
    if not streamed:
        return await agent.run(prompt, **settings)
    async with agent.run_stream_events(prompt, **settings) as events:
        seen: list[Any] = [event async for event in events]
    for event in seen[:-1]:
        part = getattr(event, "part", None) or getattr(event, "delta", None)
        text = getattr(part, "content_delta", None) or (part.content if isinstance(part, TextPart) else "")
        assert not markup_in(str(text)), event
    return seen[-1].result


# -- the demo ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("driver", "streamed"),
    sample(
        [(driver, streamed) for driver in dialects() for streamed in (True, False)],
        (HERMES, True),
        (HERMES, False),
    ),
    ids=lambda value: getattr(value, "name", "streamed" if value else "whole"),
)
async def test_the_demo_task_is_completed(driver: TextDriver, streamed: bool, tmp_path: Path, make_kernel: Any) -> None:
    project = copy_sample_project(tmp_path / "project")
    kernel: Kernel = make_kernel("todo", "filesystem", more=(deep_demo,))
    demo: Any = deep_demo.DemoModel("demo:tour", _tour())
    text = AsText(demo, driver, before="I go on.\n", chunk=1)
    agent = kernel.create_agent(
        text.model(),
        backend=local_backend(project),
        interrupt_on=False,
        capabilities=[Native()],
        plugins=[PromptedToolsOptions(dialect=driver.name)],
    )
    deps = create_default_deps()
    result = await run(agent, streamed, "Do what the README asks for.", deps=deps)
    assert "all 6 tests pass" in result.output
    assert "What I could not do" not in result.output
    assert {todo.status for todo in deps.todos} == {"completed"}
    assert (
        subprocess.run([sys.executable, "-m", "unittest"], cwd=project, capture_output=True, check=False).returncode
        == 0
    )
    assert {"write_todos", "ls", "glob", "grep", "read_file", "edit_file", "write_file", "execute"} == {
        *called(result.all_messages())
    }
    # What the model read is the prefix of what it reads next, and holds every result.
    for before, after in zip(text.received, text.received[1:], strict=False):
        assert after[: len(before)] == before
    assert "1998 != 1999" in str(text.received[-1])
    for message in result.all_messages():
        for part in message.parts:
            assert not isinstance(part, TextPart) or not markup_in(part.content)


def _tour() -> Any:
    from deep_demo.tour import tour

    return tour


# -- approvals and deferred tools --------------------------------------------------------------------------------------


@every_dialect
@either
async def test_an_approval_pauses_and_resumes_in_another_process(
    driver: TextDriver, streamed: bool, make_agent: Maker
) -> None:
    both = write(driver, ("write_file", {"path": "/a.txt", "content": "x < y"}), ("ls", {"path": "/"}))
    model = TextModel(f"I write it.\n{both}", "Written.")
    settings: dict[str, Any] = {"dialect": driver.name, "interrupt_on": "write"}
    settings["output_type"] = [str, DeferredToolRequests]
    deps = create_default_deps()
    paused = await run(make_agent(model, "filesystem", **settings), streamed, "go", deps=deps)
    requests = paused.output
    assert isinstance(requests, DeferredToolRequests)
    assert [(call.tool_name, call.args_as_dict()["content"]) for call in requests.approvals] == [
        ("write_file", "x < y")
    ]
    stored = ConversationTypeAdapter.dump_json(paused.conversation)
    results = DeferredToolResults(approvals={requests.approvals[0].tool_call_id: True})
    again = make_agent(model, "filesystem", **settings)
    done = await run(
        again,
        streamed,
        None,
        conversation=ConversationTypeAdapter.validate_json(stored),
        deferred_tool_results=results,
        deps=deps,
    )
    assert done.output == "Written."
    assert {"write_file", "ls"} == {*called(done.all_messages())}
    assert model.requests[1].turns[1][1] == f"I write it.\n{both}"


async def test_a_denied_call_is_reported(make_agent: Maker) -> None:
    model = TextModel(write(HERMES, ("write_file", {"path": "/a.txt", "content": "x"})), "Then not.")
    agent = make_agent(model, "filesystem", interrupt_on="write", output_type=[str, DeferredToolRequests])
    deps = create_default_deps()
    paused = await agent.run("go", deps=deps)
    denied = {call.tool_call_id: ToolDenied("not today") for call in paused.output.approvals}
    done = await agent.run(
        message_history=paused.all_messages(), deferred_tool_results=DeferredToolResults(approvals=denied), deps=deps
    )
    assert done.output == "Then not."
    assert "not today" in model.requests[1].last


async def test_an_external_call_comes_back_with_its_result() -> None:
    model = TextModel(write(HERMES, ("train", {"epochs": 3})), "Trained.")
    agent: Agent[Any, Any] = Agent(model, capabilities=[PromptedTools()], output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def train(epochs: int) -> str:
        """Train for hours."""
        raise CallDeferred

    paused = await agent.run("go")
    (call,) = paused.output.calls
    done = await agent.run(
        message_history=paused.all_messages(),
        deferred_tool_results=DeferredToolResults(calls={call.tool_call_id: {"loss": 0.1}}),
    )
    assert done.output == "Trained."
    assert '{"loss": 0.1}' in model.requests[1].last


# -- sessions ----------------------------------------------------------------------------------------------------------


@every_dialect
async def test_a_stored_session_replays_in_its_dialect(driver: TextDriver, make_kernel: Any) -> None:
    store = MemoryStore()

    def runner(model: TextModel) -> Runner:
        """What a new process makes."""
        kernel = make_kernel("todo", more=(deep_sessions,))
        options = PromptedToolsOptions(dialect=driver.name)
        agent = kernel.create_agent(model, backend="memory", plugins=[options], capabilities=session_capabilities())
        return Runner(agent, store, kernel=kernel)

    todo = {"todos": [{"content": "Dig", "status": "pending"}]}
    first, second = TextModel(write(driver, ("write_todos", todo)), "one"), TextModel("two")
    begun = await runner(first).run("s", "hello", run_id="r1")
    assert begun.status == "completed", begun.error
    outcome = await runner(second).run("s", "again", run_id="r2")
    assert outcome.status == "completed"
    sent = second.requests[0].turns
    assert sent[: len(first.requests[1].turns)] == first.requests[1].turns
    assert write(driver, ("write_todos", todo)) in sent[1][1]
    assert second.requests[0].instructions == first.requests[0].instructions


# -- subagents ---------------------------------------------------------------------------------------------------------


@every_dialect
@either
async def test_a_whole_task_from_todo_to_subagent_to_approval(
    driver: TextDriver, streamed: bool, make_agent: Maker
) -> None:
    todo = {"todos": [{"content": "Let b be written", "status": "in_progress"}]}

    def play(request: Request) -> str:
        asked = [text for role, text in request.turns if role == "assistant"]
        if "Write the file" in request.prompt:
            wanted = ("write_file", {"path": "/b.txt", "content": "x < y & `z`\n"})
            return "I write." + "\n\n" + write(driver, wanted) if not asked else "child done"
        parent = [
            "First I plan.\n" + write(driver, ("write_todos", todo)),
            "A subagent does it.\n" + write(driver, ("task", {"description": "Write the file b."})),
            write(driver, ("read_file", {"path": "/b.txt"}), ("ls", {"path": "/"})),
            "parent done",
        ]
        return parent[len(asked)]

    model = TextModel(play, chunk=1)  # each character alone: the markers are split everywhere
    settings: dict[str, Any] = {"interrupt_on": "write", "output_type": [str, DeferredToolRequests]}
    agent = make_agent(model, "filesystem", "subagents", "todo", dialect=driver.name, **settings)
    deps = create_default_deps()
    paused = await run(agent, streamed, "go", deps=deps)
    (asking,) = paused.output.approvals
    assert asking.tool_name == "task"
    assert paused.output.metadata[asking.tool_call_id]["calls"][0]["args"]["content"] == "x < y & `z`\n"
    approve = DeferredToolResults(approvals={asking.tool_call_id: True})
    history = paused.all_messages()
    done = await run(agent, streamed, None, message_history=history, deferred_tool_results=approve, deps=deps)
    assert done.output == "parent done"
    assert called(done.all_messages()) == ["write_todos", "task", "read_file", "ls"]
    assert ("success", "child done") in outcomes(done.all_messages())
    assert "x < y & `z`" in outcomes(done.all_messages())[2][1]
    child = [request for request in model.requests if "Write the file" in request.prompt]
    assert len(child) == 2
    assert "write_file" in child[0].instructions
    for message in done.all_messages():
        for part in message.parts:
            assert not isinstance(part, TextPart) or not markup_in(part.content)


# -- live text, tools that appear --------------------------------------------------------------------------------------


async def test_live_sections_follow_the_results(make_agent: Maker) -> None:
    steps = [
        write(HERMES, ("write_todos", {"todos": [{"content": "Dig", "status": status}]}))
        for status in ("pending", "completed")
    ]
    model = TextModel(*steps, "done")
    await make_agent(model, "todo").run("go", deps=create_default_deps())
    assert any("[ ] Dig" in text for _, text in model.requests[1].turns)
    assert any("[x] Dig" in text for _, text in model.requests[2].turns)
    for before, after in zip(model.requests, model.requests[1:], strict=False):
        assert after.turns[: len(before.turns)] == before.turns
        assert after.instructions == before.instructions


async def test_a_tool_that_is_found_later_is_described_then(make_agent: Maker) -> None:
    agent: Agent[Any, Any] = Agent(
        TextModel(
            write(HERMES, ("search_tools", {"queries": ["rare"]})), write(HERMES, ("rare_tool", {})), "found and used"
        ),
        capabilities=[PromptedTools()],
    )

    @agent.tool_plain(defer_loading=True)
    def rare_tool() -> str:
        """Do a rare thing."""
        return "rarely"

    model: Any = agent.model
    result = await agent.run("go")
    assert result.output == "found and used"
    assert "Do a rare thing." not in model.requests[0].instructions
    assert "Do a rare thing." in model.requests[1].instructions
    assert ("success", "rarely") in outcomes(result.all_messages())


# -- dialects of plugins -----------------------------------------------------------------------------------------------


class ShoutDriver(TextDriver):
    """A third party's dialect: hermes with another tag."""

    name = "shout"
    families = re.compile("shout")

    def forms(self) -> Any:
        from functools import partial

        from deep_universe.drivers.json_body import JsonBody, Markers
        from deep_universe.drivers.scanner import Form

        return [Form("<CALL>", partial(JsonBody, Markers("<CALL>", "</CALL>")), ("</CALL>",))]

    def render(self, tools: Any) -> str:
        return "SHOUT: " + ", ".join(tool.name for tool in tools)

    def encode_calls(self, calls: Any) -> str:
        return HERMES.encode_calls(calls).replace("tool_call>", "CALL>")

    def encode_results(self, results: Any) -> str:
        return f"RESULTS: {[result.result for result in results]}"


class ShoutPlugin:
    """Adds the dialect."""

    deep_options: ClassVar[Any] = None

    @hookimpl(of="universe")
    def deep_tool_drivers(self, context: Any) -> list[Any]:
        return [ShoutDriver()]

    @hookimpl
    def deep_prompt_sections(self, context: Any) -> list[PromptSection]:
        return [PromptSection("shout", "Speak loudly.")]


async def test_a_third_partys_dialect_works_by_its_name(make_agent: Maker) -> None:
    model = TextModel(write(ShoutDriver(), ("read_todos", {})), "none")
    agent = make_agent(model, "todo", more=(ShoutPlugin(),), dialect="shout")
    result = await agent.run("go", deps=create_default_deps())
    assert called(result.all_messages()) == ["read_todos"]
    assert "SHOUT: " in model.requests[0].instructions
    assert model.requests[1].last.startswith("RESULTS: ['No todos")


@pytest.mark.parametrize(
    ("name", "message"),
    [("hermess", "Did you mean 'hermes'"), ("openai", "'openai' is a wire format, not a text dialect")],
)
async def test_a_wrong_dialect_is_an_error_when_the_agent_is_created(
    name: str, message: str, make_agent: Maker
) -> None:
    with pytest.raises(Exception, match=re.escape(message)) as caught:
        make_agent(TextModel("hi"), dialect=name)
    assert "plugins.prompted_tools.options.dialect" in str(caught.value)
    assert isinstance(caught.value, ConfigError) or "ConfigError" in repr(caught.value.__cause__)
