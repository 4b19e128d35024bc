"""Peers: the server that plays a script to any client, and trials in a process without deep."""

from __future__ import annotations

import asyncio
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from deep_trials.choosing import contenders
from deep_trials.errors import AgentNotFound, SuiteError
from deep_trials.peers.environments import interpreter
from deep_trials.peers.stub import answer, serve
from deep_trials.runs import jobs_of, run_jobs
from deep_trials.servers import Server
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from plugins.trials.tests.written import Maker

AREA = {
    "name": "area",
    "description": "The area.",
    "parameters": {"type": "object", "properties": {"width": {"type": "integer"}}, "required": ["width"]},
}


def tool(name: str, *required: str, **properties: Any) -> dict[str, Any]:
    return {"function": {"name": name, "parameters": {"properties": properties, "required": [*required]}}}


def test_a_call_takes_the_names_of_the_arguments_that_are_offered() -> None:
    script = [{"calls": [{"name": "write_file", "args": {"path": "a", "content": "b", "mode": "x"}}]}, "Done."]
    offered = [tool("write_file", "file_path", "kind", file_path={}, content={}, kind={"enum": ["text", "data"]})]
    asked = [{"role": "user", "content": "Write."}]
    assert answer(script, asked, offered) == [
        {"name": "write_file", "args": {"file_path": "a", "content": "b", "kind": "text"}}
    ]
    assert answer(script, [*asked, {"role": "assistant"}], offered) == "Done."
    assert answer(script, asked, [tool("ls")]) == "I cannot go on: there is no tool write_file."


def test_a_subagent_plays_its_own_steps() -> None:
    script = {"steps": ["mine"], "subagents": {"read letters": ["theirs"]}}
    assert (
        answer(script, [{"role": "user", "content": [{"type": "text", "text": "Please read letters."}]}], [])
        == "theirs"
    )
    assert answer(script, [{"role": "user", "content": "Else."}], []) == "mine"


@pytest.mark.parametrize("streamed", [False, True])
def test_a_client_of_openai_plays_a_script(streamed: bool) -> None:
    seen: list[str] = []

    def look(path: str) -> str:
        """Look."""
        seen.append(path)
        return "seen"

    async def run(url: str) -> str:
        model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=url, api_key="none"))
        agent = Agent(model, tools=[look])
        if not streamed:
            return (await agent.run("Look.")).output
        async with agent.run_stream("Look.") as result:
            return await result.get_output()

    looks = {"calls": [{"name": "look", "args": {"path": "a"}}, {"name": "look", "args": {"path": "b"}}]}
    with serve([looks, "both"]) as url:
        output = asyncio.run(run(url))
    assert (sorted(seen), output) == (["a", "b"], "both")


def test_a_peer_without_an_environment_says_how_to_make_one(
    make_suite: Maker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AgentNotFound, match=r"python3 -m venv \.peers/deepagents && .*install deepagents langchain"):
        contenders(make_suite(one={}), ["deep", "deepagents"], [], {})
    python = tmp_path / ".peers" / "pydantic-deep" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert interpreter("pydantic-deep") == str(python)


def test_a_peer_takes_no_tools_of_a_server(make_suite: Maker) -> None:
    suite = make_suite(one={})
    served = replace(suite.tasks[0], functions=(AREA,), server=Server([sys.executable]))
    with pytest.raises(SuiteError, match="has tools of a server, and bare takes none: --agent deep"):
        contenders(replace(suite, tasks=(served,)), ["deep", "bare"], [], {})


@pytest.mark.slow
def test_functions_are_the_only_tools_of_the_bare_agent_and_end_its_run(make_suite: Maker, tmp_path: Path) -> None:
    check = "[(each.tool, each.args) for each in trial.calls] == [('area', {'width': 2})]"
    suite = make_suite(
        called={"check": check, "script": [{"calls": [{"name": "area", "args": {"width": 2}}]}, "never asked"]},
        absent={"check": "'no tool ls' in trial.answer", "script": [{"calls": [{"name": "ls", "args": {}}]}]},
    )
    suite = replace(suite, tasks=tuple(replace(task, functions=(AREA,)) for task in suite.tasks))
    outcome = asyncio.run(run_jobs(jobs_of(suite, contenders(suite, ["bare"], [], {}), 1), tmp_path / "run"))
    assert [(row.task, row.end, row.requests) for row in outcome.rows] == [
        ("absent", "solved", 1),
        ("called", "solved", 1),
    ]


@pytest.mark.slow
def test_the_bare_agent_does_tasks_in_a_process_without_deep(make_suite: Maker, tmp_path: Path) -> None:
    fix = [
        {"calls": [{"name": "read_file", "args": {"path": "app.py"}}, {"name": "ls", "args": {}}]},
        {"calls": [{"name": "edit_file", "args": {"path": "app.py", "old_string": "+ 1", "new_string": "* 2"}}]},
    ]
    out = {"calls": [{"name": "write_file", "args": {"path": "../../out.py", "content": "x"}}]}
    loop = [{"calls": [{"name": "ls", "args": {}}]}] * 9
    files = {"app.py": "def double(number):\n    return number + 1\n"}
    check = "call(trial.workspace, 'app:double', 4) == 8 and trial.used('edit_file') == 1"
    suite = make_suite(
        fixed={"files": files, "check": check, "script": [*fix, "Done."]},
        left={"files": files, "check": check, "script": ["Done."]},
        limit={"files": files, "check": "True", "deep": "requests = 3", "script": loop},
        outside={"files": files, "check": "'outside' in trial.calls[0].result", "script": [out, "Done."]},
    )
    outcome = asyncio.run(run_jobs(jobs_of(suite, contenders(suite, ["bare"], [], {}), 1), tmp_path / "run"))
    assert [(row.task, row.end) for row in outcome.rows] == [
        ("fixed", "solved"),
        ("left", "unsolved"),
        ("limit", "limit"),
        ("outside", "solved"),
    ], [row.note for row in outcome.rows]
    assert (outcome.rows[0].calls, outcome.rows[0].requests) == (3, 3)
    assert outcome.rows[0].tokens_in > 0
