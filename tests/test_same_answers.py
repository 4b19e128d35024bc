"""An application answers approvals with the same lines, whether deep-subagents is installed or not."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from deep_sessions import answer_questions, questions_of
from pydantic_ai import Agent, DeferredToolRequests, ToolApproved, ToolDenied

from deep_core import Kernel, create_default_deps
from plugins.subagents.tests.actors import Cast, call, say_results, task
from tests.environments import REPOSITORY

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("anyio_backend", ["asyncio"])]
CALLS = [call("pay", "p1", to="Ann"), call("pay", "p2", to="Ben"), call("pay", "p3", to="Cid")]


def pay(to: str) -> str:
    """Pay a person."""
    return f"paid {to}"


def decide(question: Any) -> bool | ToolApproved | ToolDenied:
    """Decide as the user of the application: Ann is paid, Ben is not, and Cid's money goes to Dan."""
    others = {"Ben": ToolDenied("Not Ben."), "Cid": ToolApproved(override_args={"to": "Dan"})}
    return others.get(question.args["to"], True)


async def answered(agent: Agent[Any, Any]) -> str:
    """Run an agent to its end, as an application does that knows nothing of its plugins."""
    deps = create_default_deps()
    result = await agent.run("go", deps=deps)
    while isinstance(requests := result.output, DeferredToolRequests):
        answers = {question.path: decide(question) for question in questions_of(requests)}
        results = answer_questions(requests, answers)
        result = await agent.run(deps=deps, message_history=result.all_messages(), deferred_tool_results=results)
    return str(result.output)


def agent_of(cast: Cast, *plugins: object) -> Agent[Any, Any]:
    kernel = Kernel(plugins=plugins, discover=False, strict=True)
    return kernel.create_agent(cast.model, tools=[pay], interrupt_on={"pay": True})


ALONE = Cast({"go": [CALLS, say_results]})
DELEGATED = Cast({"go": [task("work", "t1"), say_results], "work": [CALLS, say_results]})
BOTH = Cast({"go": [[*CALLS[:2], task("work", "t1")], say_results], "work": [[CALLS[2]], say_results]})


SAID = "success:paid Ann | denied:Not Ben. | success:paid Dan"


def with_subagents(cast: Cast) -> Agent[Any, Any]:
    import deep_subagents  # not above: a test below imports this file where it is not installed

    return agent_of(cast, deep_subagents)


@pytest.mark.parametrize("make", [agent_of, with_subagents])
async def test_the_agents_own_calls_are_answered_with_and_without_the_plugin(make: Any) -> None:
    assert await answered(make(ALONE)) == SAID


@pytest.mark.parametrize("cast", [DELEGATED, BOTH], ids=["the subagent's", "both"])
async def test_the_same_lines_answer_the_calls_of_subagents(cast: Cast) -> None:
    said = await answered(with_subagents(cast))
    assert [said.count(text) for text in ("paid Ann", "denied:Not Ben.", "paid Dan", "paid Cid")] == [1, 1, 1, 0], said


@pytest.mark.slow
async def test_the_same_lines_run_where_the_plugin_is_not_installed() -> None:
    program = """
import asyncio, sys
sys.modules["deep_subagents"] = None  # importing it raises
from tests import test_same_answers as same
print(asyncio.run(same.answered(same.agent_of(same.ALONE))))
"""
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.stdout == f"{SAID}\n", done.stderr


async def test_answers_that_fit_no_question_are_refused() -> None:
    requests = (await agent_of(ALONE).run("go", deps=create_default_deps())).output
    with pytest.raises(ValueError, match="answer each call that waits, and only those: p1, p2, p3, p9"):
        answer_questions(requests, {"p9": True})
