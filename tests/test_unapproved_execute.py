"""What tests/test_subagents_approval.py leaves open: text streams, tools that only say what they are, and a person's
yes in another process, which is for what was asked and for nothing that comes after.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import ConversationTypeAdapter, FunctionToolset, ToolDenied
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ToolCallPart

from deep_core import Kernel
from plugins.subagents.tests.actors import Cast, call, say_results, task
from tests import another_process
from tests.environments import REPOSITORY
from tests.plugins_by_hand import Tools, plugin
from tests.test_subagents_approval import (
    COMMAND,
    agent_of,
    bottom,
    cast_of,
    deps_in,
    kernel_of,
    requests_of,
    witnesses,
)

DEPTHS = pytest.mark.parametrize("depth", [0, 1, 2])


# -- streamed as text ------------------------------------------------------------------------------------------------


@DEPTHS
def test_a_text_stream_ends_by_asking(tmp_path: Path, depth: int) -> None:
    async def scenario() -> None:
        with kernel_of() as kernel:
            agent, deps = agent_of(kernel, depth), deps_in(tmp_path, kernel)
            async with agent.run_stream("go", deps=deps) as stream:
                asked: Any = await stream.get_output()
                history = stream.all_messages()
            assert witnesses(tmp_path) == 0
            results = asked.build_results(approve_all=True)
            again: dict[str, Any] = {"deps": deps, "message_history": history, "deferred_tool_results": results}
            async with agent.run_stream(None, **again) as stream:
                assert isinstance(await stream.get_output(), str)
            assert witnesses(tmp_path) == 1

    asyncio.run(scenario())


# -- tools that only say what they are -------------------------------------------------------------------------------


def rockets() -> Tools:
    """A stranger's tool that is tagged, and asks for nothing."""
    return Tools("launch", tags=["execute"], id="rockets")


def launching(depth: int) -> Cast:
    return cast_of(depth, "launch", path="moon")


@DEPTHS
def test_a_tool_tagged_execute_asks_without_a_rule(tmp_path: Path, depth: int) -> None:
    tools = rockets()

    async def scenario() -> None:
        with kernel_of(plugin("rockets", toolsets=[tools.toolset])) as kernel:
            agent, deps = agent_of(kernel, depth, cast=launching(depth)), deps_in(tmp_path, kernel)
            asked = await agent.run("go", deps=deps)
            waiting = bottom(requests_of(asked))
            assert (waiting["tool"], waiting["args"]) == ("launch", {"path": "moon"})
            assert tools.ran == []
            results = requests_of(asked).build_results(approve_all=True)
            await agent.run(None, deps=deps, message_history=asked.all_messages(), deferred_tool_results=results)
            assert tools.names == ["launch"]

    asyncio.run(scenario())


@DEPTHS
def test_the_applications_own_tool_tagged_execute_asks_too(tmp_path: Path, depth: int) -> None:
    tools = rockets()

    async def scenario() -> None:
        with kernel_of() as kernel:
            agent = agent_of(kernel, depth, cast=launching(depth), toolsets=[tools.toolset])
            asked = await agent.run("go", deps=deps_in(tmp_path, kernel))
            assert bottom(requests_of(asked))["tool"] == "launch"
            assert tools.ran == []

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("how", "config"),
    [
        ({"interrupt_on": {"launch": False}}, {}),
        ({"interrupt_on": False}, {}),
        ({}, {"plugins": {"rockets": {"require_approval": False}}}),
    ],
)
def test_the_user_can_say_that_it_need_not(tmp_path: Path, how: dict[str, Any], config: dict[str, Any]) -> None:
    tools = rockets()
    with Kernel(plugins=[plugin("rockets", toolsets=[tools.toolset])], discover=False, config=config) as kernel:
        agent = kernel.create_agent(launching(0).model, **how)
        asyncio.run(agent.run("go", deps=deps_in(tmp_path, kernel)))
    assert tools.names == ["launch"]


def test_the_annotations_of_a_server_cannot_untag_it(tmp_path: Path) -> None:
    """A tool that says `execute` and, as MCP servers do, that it only reads."""
    ran: list[str] = []
    toolset = FunctionToolset[Any](id="rockets")

    def launch(path: str) -> str:
        ran.append(path)
        return "launched"

    said = {"tags": ["execute", "read"], "annotations": {"readOnlyHint": True, "asks": False}, "meta": {"asks": False}}
    toolset.add_function(launch, metadata=said)
    with kernel_of(plugin("rockets", toolsets=[toolset])) as kernel:
        asked = asyncio.run(agent_of(kernel, 0, cast=launching(0)).run("go", deps=deps_in(tmp_path, kernel)))
    assert bottom(requests_of(asked))["tool"] == "launch"
    assert ran == []


@pytest.mark.parametrize("misspelt", ["exceute", "excute", "Execute"])
def test_a_misspelt_name_is_an_error_that_suggests_the_right_one(misspelt: str) -> None:
    with kernel_of() as kernel, pytest.raises(UserError, match=r"interrupt_on.*Did you mean 'execute'"):
        agent_of(kernel, 0, interrupt_on={misspelt: True})


# -- what a yes is for -----------------------------------------------------------------------------------------------

MORE = "echo more >> witness.txt"
STEPS: dict[str, list[list[ToolCallPart]]] = {
    "another command": [[call("execute", "c1", command=COMMAND)], [call("execute", "c2", command=MORE)]],
    "the same command": [[call("execute", "c1", command=COMMAND)], [call("execute", "c2", command=COMMAND)]],
    "the same id": [[call("execute", "c1", command=COMMAND)], [call("execute", "c1", command=COMMAND)]],
    "the same id, another command": [[call("execute", "c1", command=COMMAND)], [call("execute", "c1", command=MORE)]],
}
"""What was asked for, and what the model does with its yes."""


def greedy(depth: int, steps: list[list[ToolCallPart]]) -> Cast:
    """As `cast_of`, and whoever may run one command runs the next."""
    prompts = ["go", *(f"level {n}" for n in range(1, depth + 1))]
    roles: dict[str, Any] = {
        prompt: [task(prompts[n + 1], f"t{n + 1}"), say_results] for n, prompt in enumerate(prompts[:-1])
    }
    return Cast({**roles, prompts[-1]: [*steps, say_results]})


CASES = [*((0, how) for how in STEPS), (1, "another command"), (2, "the same command")]

RESUME = """
import asyncio, json, sys
from pathlib import Path
from pydantic_ai import ConversationTypeAdapter
from tests.test_unapproved_execute import CASES, STEPS, greedy
from tests.test_subagents_approval import agent_of, bottom, deps_in, kernel_of, requests_of

async def resume(folder, depth, how):
    with kernel_of() as kernel:
        agent = agent_of(kernel, depth, cast=greedy(depth, STEPS[how]))
        deps = deps_in(folder / "work", kernel, (folder / "deps.json").read_text())
        conversation = ConversationTypeAdapter.validate_json((folder / "conversation.json").read_text())
        results = conversation.deferred_tool_requests.build_results(approve_all=True)
        again = await agent.run(None, deps=deps, conversation=conversation, deferred_tool_results=results)
        return bottom(requests_of(again))["args"]["command"]

print(json.dumps([asyncio.run(resume(Path(sys.argv[1]) / str(n), *case)) for n, case in enumerate(CASES)]))
"""


def test_a_yes_in_another_process_is_for_what_was_asked_and_for_nothing_after_it(tmp_path: Path) -> None:
    async def ask(folder: Path, depth: int, how: str) -> None:
        (folder / "work").mkdir(parents=True)
        with kernel_of() as kernel:
            deps = deps_in(folder / "work", kernel)
            asked = await agent_of(kernel, depth, cast=greedy(depth, STEPS[how])).run("go", deps=deps)
            assert bottom(requests_of(asked))["args"] == {"command": COMMAND}
            (folder / "conversation.json").write_bytes(ConversationTypeAdapter.dump_json(asked.conversation))
            (folder / "deps.json").write_text(deps.dump())
        assert witnesses(folder / "work") == 0

    for number, case in enumerate(CASES):
        asyncio.run(ask(tmp_path / str(number), *case))
    # One process for all cases: most of its time is the imports.
    done = another_process.run(RESUME, tmp_path, cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    asked_anew = [STEPS[how][1][0].args_as_dict()["command"] for _, how in CASES]
    assert json.loads(done.stdout) == asked_anew
    assert [witnesses(tmp_path / str(number) / "work") for number in range(len(CASES))] == [1] * len(CASES)


def test_a_yes_for_one_of_two_runs_one(tmp_path: Path) -> None:
    both = [call("execute", "c1", command=COMMAND), call("execute", "c2", command=MORE)]

    async def scenario() -> None:
        with kernel_of() as kernel:
            agent, deps = agent_of(kernel, 0, cast=greedy(0, [both])), deps_in(tmp_path, kernel)
            asked = await agent.run("go", deps=deps)
            answers = requests_of(asked).build_results(approvals={"c1": True, "c2": ToolDenied("one is enough")})
            done = await agent.run(None, deps=deps, message_history=asked.all_messages(), deferred_tool_results=answers)
            assert "denied:one is enough" in done.output

    asyncio.run(scenario())
    assert (tmp_path / "witness.txt").read_text() == "ran\n"
