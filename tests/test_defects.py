"""The rows of tests/defects.md that need several plugins together and have no test elsewhere."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import deep_backends
import deep_filesystem
import deep_skills
import deep_subagents
import deep_summarization
import deep_todo
import deep_uploads
import pytest
from deep_backends import local_backend, memory_backend
from deep_subagents import SubAgentConfig, SubagentsOptions
from pydantic_ai import Agent, DeferredToolRequests, Tool
from pydantic_ai.workspaces import FileEntry, SupportsFilesystem, WorkspaceBackend, WorkspaceRef

from deep_core import DeepAgentDeps, Kernel, create_default_deps
from plugins.subagents.tests.actors import Cast, call, outcomes, say_results, task
from tests.plugins_by_hand import returns, scripted
from tests.stubs import Call, OpenAIStub, Script, openai_model

PLUGINS: list[Any] = [
    deep_backends,
    deep_filesystem,
    deep_skills,
    deep_subagents,
    deep_summarization,
    deep_todo,
    deep_uploads,
]


def agent_of(model: Any, **how: Any) -> Agent[Any, Any]:
    """An agent with every plugin."""
    config = how.pop("config", None)
    return Kernel(plugins=PLUGINS, discover=False, config=config, strict=True).create_agent(model, **how)


def run(agent: Agent[Any, Any], deps: DeepAgentDeps[Any] | None = None, prompt: str = "go") -> Any:
    return asyncio.run(agent.run(prompt, deps=deps or create_default_deps(memory_backend())))


# -- 3: rules for any tool, and for that tool alone ------------------------------------------------------------------

EVERY: dict[str, dict[str, Any]] = {
    "ls": {"path": "."},
    "read_file": {"path": "a.md"},
    "write_file": {"path": "b.md", "content": "b"},
    "edit_file": {"path": "a.md", "old_string": "a", "new_string": "b"},
    "glob": {"pattern": "*"},
    "grep": {"pattern": "a"},
    "read_todos": {},
    "write_todos": {"todos": []},
    "list_skills": {},
    "load_skill": {"skill_name": "any"},
    "task": {"description": "anything"},
}


@pytest.mark.parametrize("named", EVERY)
def test_a_rule_holds_for_the_tool_it_names_whichever_that_is_and_for_no_other(named: str) -> None:
    calls = [Call(tool, args, id=tool) for tool, args in EVERY.items()]
    cast = scripted(calls, then="done")
    result = run(agent_of(cast, interrupt_on={named: True}), create_default_deps(memory_backend({"a.md": b"a"})))
    assert isinstance(result.output, DeferredToolRequests)
    assert [part.tool_name for part in result.output.approvals] == [named]


# -- 6: what the model names cannot lead out -------------------------------------------------------------------------


def test_no_argument_of_a_file_tool_leads_out_of_the_workspace(tmp_path: Path) -> None:
    root, evil = tmp_path / "root", tmp_path / "root-evil"
    for folder in (root, evil):
        folder.mkdir()
    (evil / "secret.txt").write_text("the hidden word")
    (root / "link").symlink_to(evil)
    (root / "a..b").write_text("two dots in a name are a name")
    out = ["../root-evil", str(evil), "link", "link/..", f"{root}/../root-evil", "x/../../root-evil"]
    calls = [
        *(Call("ls", {"path": path}) for path in out),
        *(Call("read_file", {"path": f"{path}/secret.txt"}) for path in out),
        *(Call("write_file", {"path": f"{path}/made.txt", "content": "made"}) for path in out),
        *(Call("edit_file", {"path": f"{path}/secret.txt", "old_string": "h", "new_string": "x"}) for path in out),
        *(Call("glob", {"pattern": f"{path}/*"}) for path in out),
        *(Call("glob", {"pattern": "**/*", "path": path}) for path in out),
        *(Call("grep", {"pattern": "word", "path": path, "output_mode": "content"}) for path in out),
        *(Call("grep", {"pattern": "word", "glob": f"{path}/*", "output_mode": "content"}) for path in out),
        Call("read_file", {"path": "a..b"}, id="inside"),
    ]
    result = run(agent_of(scripted(calls)), create_default_deps(local_backend(root)))
    answers = {part.tool_call_id: part for part in returns(result.all_messages())}
    assert len(answers) == len(calls)
    assert "two dots in a name" in str(answers["inside"].content)
    assert "hidden" not in str([part.content for part in answers.values()])
    assert {path.name: path.read_text() for path in evil.iterdir()} == {"secret.txt": "the hidden word"}


# -- 10: the model knows whom it can ask -----------------------------------------------------------------------------


@pytest.mark.parametrize("general", [True, False])
def test_every_subagent_type_stands_in_the_request(tmp_path: Path, general: bool) -> None:
    types = (
        SubAgentConfig(name="reviewer", description="Reads code with care.", instructions="Review."),
        SubAgentConfig(name="tester", description="Writes tests.", instructions="Test."),
    )
    with OpenAIStub(Script("done")) as stub:
        options = SubagentsOptions(types=types, include_general_purpose=general)
        run(agent_of(openai_model(stub), plugins=[options]))
        (body,) = stub.requests
    sent = json.dumps(body)
    assert all(kind.name in sent and kind.description in sent for kind in types)
    (schema,) = [tool["function"]["parameters"] for tool in body["tools"] if tool["function"]["name"] == "task"]
    # general-purpose is whom the model gets without naming anybody.
    assert ("subagent_type" in schema["required"]) is not general


# -- 12: the application's tools are taken as they are ---------------------------------------------------------------


def test_a_tool_object_keeps_its_name_and_asks_also_in_a_subagent() -> None:
    ran: list[str] = []

    def pay(amount: int) -> str:
        ran.append(f"paid {amount}")
        return ran[-1]

    def look(place: str) -> str:
        ran.append(f"looked at {place}")
        return ran[-1]

    work = [[call("transfer", "p", amount=3), call("look", "l", place="here")], say_results]
    for depth, cast in enumerate([Cast({"go": work}), Cast({"go": [task("work", "t"), say_results], "work": work})]):
        ran.clear()
        agent = agent_of(cast.model, tools=[Tool(pay, name="transfer", requires_approval=True), look])
        deps = create_default_deps(memory_backend())
        asked = run(agent, deps)
        (waiting,) = asked.output.approvals
        assert waiting.tool_name == ("task" if depth else "transfer")
        assert ran == ["looked at here"]
        answers = asked.output.build_results(approve_all=True)
        more = {"message_history": asked.all_messages(), "deferred_tool_results": answers}
        done = asyncio.run(agent.run(None, deps=deps, **more))
        assert ran == ["looked at here", "paid 3"]
        assert "paid 3" in str(outcomes(done.all_messages()))


# -- 15: what the model writes is no shell ---------------------------------------------------------------------------

HOSTILE = ["'; touch pwned; '", '"; touch pwned; "', "$(touch pwned)", "`touch pwned`", "x\ntouch pwned", "--pre=touch"]


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_the_model_searches_or_writes_is_run(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.md").write_text(f"before {text} after\n")
    calls = [
        Call("read_file", {"path": "a.md"}),
        Call("grep", {"pattern": text, "output_mode": "content"}),
        Call("grep", {"pattern": "a", "path": text}),
        Call("grep", {"pattern": "a", "glob": text}),
        Call("glob", {"pattern": f"*{text}*"}),
        Call("ls", {"path": text}),
    ]
    edit = Call("edit_file", {"path": "a.md", "old_string": text, "new_string": f"{text}{text}"})
    result = run(agent_of(scripted(calls, edit)), create_default_deps(local_backend(tmp_path)))
    assert len(returns(result.all_messages())) == len(calls) + 1
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]
    assert (tmp_path / "a.md").read_text() == f"before {text}{text} after\n"


# -- 16: the prompt holds no value of the environment ----------------------------------------------------------------


def test_no_value_of_the_environment_reaches_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVICE_TOKEN", "s3cr3t-value")
    config = {"plugins": {"backends": {"options": {"env": ["SERVICE_TOKEN"]}}}}
    monkeypatch.chdir(tmp_path)
    command = Call("execute", {"command": "echo it has ${#SERVICE_TOKEN} characters"})
    with OpenAIStub(Script(Call("ls"), command, "done")) as stub:
        agent = agent_of(openai_model(stub), backend="local", config=config, interrupt_on={"execute": False})
        run(agent, create_default_deps())
        assert len(stub.bodies) == 3
        assert b"it has 12 characters" in stub.bodies[-1]  # a command has it
        assert all(b"s3cr3t-value" not in body for body in stub.bodies)


# -- 1.11, 7: a backend of one's own is its protocol -----------------------------------------------------------------


class Own(WorkspaceBackend, SupportsFilesystem):
    """Pydantic AI's protocol and nothing else: no attribute of it is known to any plugin."""

    def __init__(self) -> None:
        self.__files = memory_backend()

    @property
    def ref(self) -> WorkspaceRef | None:
        return None

    async def working_dir(self) -> str:
        return "/box"

    async def read_bytes(self, path: str) -> bytes:
        return await self.__files.read_bytes(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        await self.__files.write_bytes(path, data)

    async def stat(self, path: str) -> FileEntry:
        return await self.__files.stat(path)

    async def list_dir(self, path: str) -> Any:
        return await self.__files.list_dir(path)

    async def make_dir(self, path: str) -> None:
        await self.__files.make_dir(path)

    async def remove(self, path: str) -> None:
        await self.__files.remove(path)

    async def exists(self, path: str) -> bool:
        return await self.__files.exists(path)


def test_a_backend_of_ones_own_serves_every_plugin() -> None:
    async def scenario() -> None:
        deps = create_default_deps(Own())
        script = [
            Call("write_file", {"path": "notes/a.md", "content": "alpha\n"}),
            [Call("read_file", {"path": "notes/a.md"}), Call("read_file", {"path": "uploads/b.csv"})],
            Call("edit_file", {"path": "notes/a.md", "old_string": "alpha", "new_string": "beta"}),
            [Call("grep", {"pattern": "beta", "output_mode": "content"}), Call("glob", {"pattern": "**/*"})],
            [Call("ls", {"path": "uploads"}), Call("big", {})],
        ]

        def big() -> str:
            return "x" * 30_000

        kernel = Kernel(plugins=PLUGINS, discover=False, strict=True)
        agent = kernel.create_agent(scripted(*script), tools=[big])
        deps.state.bind(kernel)
        await deps.upload_file("b.csv", b"one,two\n", upload_dir="uploads")
        done = await agent.run("go", deps=deps)
        told = [str(part.content) for part in returns(done.all_messages())]
        assert all(part.outcome == "success" for part in returns(done.all_messages())), told
        assert "one,two" in told[2]
        assert "notes/a.md:1: beta" in told[4]
        assert "uploads/b.csv" in told[5]
        assert "b.csv" in told[6]
        assert len(told[7]) < 3_000, "what is large was stored in the backend"

    asyncio.run(scenario())
