"""`ask_user`: when it is offered, what may be asked, and answers in another process."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import deep_ask
import deep_backends
import pytest
from deep_ask import AskOptions, open_questions
from deep_sessions import NotPending
from deep_subagents import decide
from deep_subagents.approvals import answers
from pydantic_ai import DeferredToolRequests, DeferredToolResults
from pydantic_ai.messages import ToolCallPart
from pytest_deep import ScriptedModel, call

from deep_core import Kernel, create_default_deps
from plugins.ask.tests import asker
from tests import another_process

pytestmark = pytest.mark.anyio
PROGRAM = Path(asker.__file__)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def tools_of(config: dict[str, Any] | Path | None = None, **how: Any) -> dict[str, int]:
    with Kernel(plugins=[deep_ask, deep_backends], discover=False, strict=True, config=config) as kernel:
        return {tool.name: tool.tokens for tool in kernel.explain(kernel.create_agent("test", **how)).tools}


def test_it_is_offered_only_where_a_person_answers_and_costs_little() -> None:
    assert tools_of() == {}
    assert tools_of({"plugins": {"ask": {"options": {"offer": True}}}})["ask_user"] <= 75
    assert tools_of(ask={"offer": True}, interrupt_on=False) == {}  # no call can wait


async def test_an_answer_is_the_calls_result_and_bad_questions_are_returned_to_the_model() -> None:
    model = ScriptedModel(
        [
            call("ask_user", question=" \n"),
            call("ask_user", question="x" * 2_001),
            call("ask_user", question="Which?", options=["a"] * 11),
            call("ask_user", question="Which?", options=[1]),
        ],
        call("ask_user", question="Which\u202e\x1b[2J one?\nSay it.", options=["left\n", "left", "right\u200b"]),
        "thanks",
    )
    with Kernel(plugins=[deep_ask, deep_backends], discover=False, strict=True) as kernel:
        agent, deps = kernel.create_agent(model, plugins=[AskOptions(offer=True)]), create_default_deps(kernel=kernel)
        result = await agent.run("go", deps=deps)
        assert isinstance(result.output, DeferredToolRequests)
        refusals = [str(part.content) for part in model.requests[1].results]
        assert [text.split(":")[0].split(";")[0] for text in refusals] == [
            "question is empty", "question has 2,001 characters", "options is a list of at most 10 texts.",
            "an option is empty",
        ]  # fmt: skip
        (question,) = open_questions(result.output)
        assert question.text == "Which\\u202e\\x1b[2J one?\nSay it."
        assert question.options == ("left", "right\\u200b")
        answers = DeferredToolResults(calls={question.path: "neither"})
        history = result.all_messages()
        result = await agent.run(message_history=history, deferred_tool_results=answers, deps=deps)
    assert result.output == "thanks"
    assert [part.content for part in model.requests[-1].results] == ["neither"]


@pytest.mark.slow
async def test_a_question_at_any_depth_survives_kill_9_and_is_answered_once_in_another_process(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'store.db'}"
    for what in ("ask", "answer"):
        done = another_process.run(PROGRAM, what, store)
        assert done.returncode == -signal.SIGKILL, done.stderr
    agent = await asker.create(store)
    try:
        for name in ("s0", "s1", "s2"):
            state = await agent.runner.store.load(name)
            assert state.info.status == "awaiting"
            call_id = "q" if name == "s0" else "t"
            with pytest.raises(NotPending):  # the process that died has answered
                await agent.decide(name, DeferredToolResults(calls={call_id: "red"}))
            result = await agent.resume(name)
            assert (result.status, result.message) == ("completed", "blue")
    finally:
        await agent.close()
        await agent.runner.store.aclose()


def test_a_task_that_is_approved_as_a_whole_leaves_its_questions_unanswered_and_types_are_distinguished() -> None:
    question: dict[str, Any] = {"text": "?", "options": []}
    asked = {"id": "q", "path": "t/q", "tool": "ask_user", "args": {}, "question": question}
    runs: dict[str, Any] = {"id": "e", "path": "t/e", "tool": "execute", "args": {}}
    top = DeferredToolRequests(
        approvals=[ToolCallPart("task", {}, "t")],
        metadata={"t": {"subagent": "helper", "calls": [asked, runs]}},
    )
    below = DeferredToolRequests(
        calls=[ToolCallPart("ask_user", {}, "q"), ToolCallPart("outside", {}, "o")],
        approvals=[ToolCallPart("execute", {}, "e")],
        metadata={"q": {"question": question}},
    )
    assert [(q.path, q.subagent) for q in open_questions(top)] == [("t/q", "helper")]
    both = answers(below, decide(top, {"q": "yes", "e": True}).metadata["t"])
    assert both.calls["q"] == "yes"
    assert "outside of the agent" in str(both.calls["o"])
    assert "no answer" in str(answers(below, None).calls["q"])
    with pytest.raises(ValueError, match="'q' is a question to the user: its answer is text, not True"):
        decide(top, {"q": True, "e": True})
    with pytest.raises(ValueError, match="a decision is True, False"):
        decide(top, {"q": "yes", "e": "yes"})
    with pytest.raises(ValueError, match="also waits for a decision on 't/e'"):
        decide(top, {"q": "yes"})
