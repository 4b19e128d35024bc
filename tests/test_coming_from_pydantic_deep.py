"""What people know from pydantic-deep is where docs/coming-from-pydantic-deep.md says, and does what it did."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import deep_backends
import deep_demo
import deep_filesystem
import deep_skills
import deep_subagents
import deep_summarization
import deep_todo
import deep_uploads
import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, AgentRunResult, DeferredToolRequests, FunctionToolset
from pydantic_ai.capabilities import ProcessHistory
from pydantic_ai.messages import ModelMessage

from deep_core import DeepAgentDeps, Kernel, create_deep_agent, create_default_deps
from tests.docs_pages import ROOT
from tests.plugins_by_hand import returns, run, scripted
from tests.stubs import Call

PAGE = ROOT / "docs" / "coming-from-pydantic-deep.md"
SESSION: type[DeepAgentDeps[Any]] = DeepAgentDeps
FEATURES: tuple[object, ...] = (
    *(
        deep_backends,
        deep_demo,
        deep_filesystem,
        deep_skills,
        deep_subagents,
        deep_summarization,
        deep_todo,
        deep_uploads,
    ),
)


def words(text: str) -> list[str]:
    return text.split()


NAMES = words(
    """
    create_deep_agent create_default_deps run_with_files DeepAgentDeps BackendProtocol SandboxProtocol StateBackend
    FilesystemBackend CompositeBackend BaseSandbox DockerSandbox LocalSandbox RuntimeConfig BUILTIN_RUNTIMES get_runtime
    SessionManager TodoToolset FilesystemToolset SubAgentToolset SkillsToolset SummarizationProcessor
    create_summarization_processor FileData FileInfo WriteResult EditResult ExecuteResponse GrepMatch Todo
    SubAgentConfig CompiledSubAgent Skill SkillDirectory SkillFrontmatter UploadedFile ResponseFormat
    """
)
PARAMETERS = words(
    """
    model instructions tools toolsets subagents skills skill_directories backend include_todo include_filesystem
    include_subagents include_skills include_general_purpose_subagent include_execute interrupt_on output_type
    history_processors
    """
)
TOOLS = words(
    """
    read_todos write_todos ls read_file write_file edit_file glob grep execute task list_skills load_skill
    read_skill_resource
    """
)
WHERE_ONE_WOULD_LOOK = words(
    """
    deep_filesystem.create_filesystem_toolset deep_subagents.create_subagent_toolset deep_subagents.SubAgentConfig
    deep_skills.create_skills_toolset deep_skills.discover_skills deep_skills.parse_skill_md
    deep_skills.load_skill_instructions deep_skills.get_skills_system_prompt deep_skills.Skill
    deep_skills.SkillDirectory
    deep_summarization.SummarizationProcessor deep_summarization.create_summarization_processor
    deep_uploads.run_with_files deep_uploads.UploadedFile deep_todo.create_todo_toolset deep_todo.Todo
    deep_core.create_deep_agent deep_core.create_default_deps deep_core.DeepAgentDeps deep_core.BackendProtocol
    deep_core.SandboxProtocol
    """
)
pytestmark = pytest.mark.anyio


def rows(heading: str) -> list[tuple[str, str, str]]:
    """The rows of the table below a heading: the name in the first column, and the other two cells."""
    section = PAGE.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \| (.*?) \| (.*?) ?\|$", section, re.M)


def imported(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def answers(result: AgentRunResult[Any]) -> list[str]:
    """What tools answered, in order."""
    return [str(part.content) for part in returns(result.all_messages())]


def kernel_of_features() -> Kernel:
    return Kernel(plugins=FEATURES, discover=False)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"  # Pydantic AI runs on nothing else


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """Every feature, also as the process's default kernel."""
    with kernel_of_features() as made:
        monkeypatch.setattr("deep_core.plugins.kernel._default", made)
        yield made


# -- names ---------------------------------------------------------------------------------------------------------


def test_the_page_has_all_36_names() -> None:
    assert len(NAMES) == 36
    assert [name for name, _, _ in rows("Names")] == NAMES


@pytest.mark.parametrize(("name", "home", "remark"), rows("Names"))
def test_a_name_has_a_home_that_imports_or_a_reason(name: str, home: str, remark: str) -> None:
    if home.startswith("dropped, because "):
        assert len(home.split()) > 5
    else:
        assert re.fullmatch(r"`[\w.]+`", home), home
        imported(home.strip("`"))
    for other in re.findall(r"`((?:deep|pydantic)_\w+(?:\.\w+)+)`", remark):
        imported(other)


@pytest.mark.parametrize("name", WHERE_ONE_WOULD_LOOK)
def test_a_name_is_where_one_would_look(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert attribute in import_module(module).__all__
    assert imported(name) is not None


# -- parameters ----------------------------------------------------------------------------------------------------


def forecast(city: str) -> str:
    """Tomorrow's weather in a city."""
    return f"Sunny in {city}"


def keep_all(messages: list[ModelMessage]) -> list[ModelMessage]:
    return messages


class Invoice(BaseModel):
    total: float


WORDS: dict[str, Any] = {
    "forecast": forecast,
    "keep_all": keep_all,
    "Invoice": Invoice,
    "FunctionToolset": FunctionToolset,
    "create_skills_toolset": deep_skills.create_skills_toolset,
    "SubagentsOptions": deep_subagents.SubagentsOptions,
    "reviewer": deep_subagents.SubAgentConfig(name="reviewer", description="Reads.", instructions="Read."),
    "skill": deep_skills.Skill(name="greet", description="Greets.", instructions="Say hello."),
}
"""What the page's snippets speak of."""


class Made:
    """The agent that a snippet makes, as the model and the caller see it."""

    def __init__(self, kernel: Kernel, keywords: dict[str, Any]) -> None:
        self.agent = kernel.create_agent(**{"model": "test", **keywords})
        self.explained = kernel.explain(self.agent)
        self.tools = {tool.name: tool for tool in self.explained.tools}
        self.plugins = {tool.plugin for tool in self.explained.tools}
        self.kernel = kernel

    def says(self, prompt: str) -> str:
        """What its own model answers."""
        return str(run(self.agent, prompt, create_default_deps(kernel=self.kernel)).output)

    def hears(self, tool: str, **arguments: Any) -> str:
        """What the model is told when it calls a tool."""
        with self.agent.override(model=scripted(Call(tool, arguments))):
            result = run(self.agent, "go", deps=create_default_deps(kernel=self.kernel))
        return answers(result)[0]


EFFECTS: dict[str, Callable[[Made], bool]] = {
    "model": lambda made: made.says("Good morning") == "Good morning",
    "instructions": lambda made: made.explained.prompt.startswith("Be brief."),
    "tools": lambda made: made.tools["forecast"].plugin == "app",
    "toolsets": lambda made: made.tools["forecast"].plugin == "app",
    "subagents": lambda made: "reviewer: Reads." in made.explained.prompt,
    "skills": lambda made: "Say hello." in made.hears("load_skill", skill_name="greet"),
    "skill_directories": lambda made: "Writes poems" in made.hears("list_skills"),
    "backend": lambda made: "here.txt" in made.hears("ls"),
    "include_todo": lambda made: "todo" not in made.plugins,
    "include_filesystem": lambda made: "filesystem" not in made.plugins,
    "include_subagents": lambda made: "subagents" not in made.plugins,
    "include_skills": lambda made: "skills" not in made.plugins,
    "include_general_purpose_subagent": lambda made: "no subagent type" in made.hears("task", description="x"),
    "include_execute": lambda made: "execute" not in made.tools and "ls" in made.tools,
    "interrupt_on": lambda made: (
        made.tools["write_file"].approval == "always" and made.tools["edit_file"].approval == "never"
    ),
    "output_type": lambda made: {Invoice, DeferredToolRequests} <= set(cast("list[Any]", made.agent.output_type)),
    "history_processors": lambda made: "app" in {item["plugin"] for item in made.explained.history_processors},
}


def test_the_page_has_all_17_parameters() -> None:
    assert len(PARAMETERS) == 17
    assert [name for name, _, _ in rows("Parameters")] == PARAMETERS == list(EFFECTS)


@pytest.mark.parametrize(("name", "snippet", "remark"), rows("Parameters"))
def test_a_parameter_is_accepted_and_does_what_it_did(
    name: str, snippet: str, remark: str, kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "here.txt").touch()
    (tmp_path / "skills" / "more" / "poems").mkdir(parents=True)
    (tmp_path / "skills" / "more" / "poems" / "SKILL.md").write_text(
        "---\nname: poems\ndescription: Writes poems.\n---\n"
    )
    for code in [snippet.strip("`"), *re.findall(r"or `([^`]+)`", remark)]:
        assert EFFECTS[name](Made(kernel, eval(f"dict({code})", dict(WORDS)))), code


# -- tools ---------------------------------------------------------------------------------------------------------


def test_the_page_has_all_13_tools() -> None:
    assert len(TOOLS) == 13
    assert [name for name, _, _ in rows("Tools")] == TOOLS


def test_the_tools_are_those_of_an_agent_with_every_feature(kernel: Kernel) -> None:
    explained = kernel.explain(kernel.create_agent("test", backend="local"))
    told = {name: plugin.strip("`") for name, plugin, _ in rows("Tools")}
    assert {tool.name: tool.plugin for tool in explained.tools} == told


# -- in an agent that is not made by deep-agent-core ------------------------------------------------------------------


def test_the_file_tools_work_in_a_plain_agent() -> None:
    agent = Agent(
        scripted(Call("write_file", {"path": "a.txt", "content": "one\n"}), Call("read_file", {"path": "a.txt"})),
        deps_type=SESSION,
        toolsets=[deep_filesystem.create_filesystem_toolset()],
    )
    backend = deep_backends.memory_backend()
    result = run(agent, "go", deps=create_default_deps(), workspace=backend)
    assert answers(result)[1].split() == ["1", "one"]
    assert backend.snapshot() == {"/workspace/a.txt": b"one\n"}


def test_execute_of_the_file_tools_asks_in_a_plain_agent_too(tmp_path: Path) -> None:
    agent = Agent(
        scripted(Call("execute", {"command": "touch made.txt"})),
        deps_type=SESSION,
        output_type=[str, DeferredToolRequests],
        toolsets=[deep_filesystem.create_filesystem_toolset()],
    )
    backend = deep_backends.local_backend(tmp_path)
    output = run(agent, "go", deps=create_default_deps(), workspace=backend).output
    assert isinstance(output, DeferredToolRequests)
    assert [call.tool_name for call in output.approvals] == ["execute"]
    assert not (tmp_path / "made.txt").exists()


def test_the_todo_tools_work_in_a_plain_agent() -> None:
    todo = {"content": "book a flight", "status": "pending"}
    agent = Agent(
        scripted(Call("write_todos", {"todos": [todo]}), Call("read_todos")),
        deps_type=SESSION,
        toolsets=[deep_todo.create_todo_toolset()],
    )
    deps = create_default_deps()
    result = run(agent, "go", deps=deps)
    assert "[ ] book a flight" in answers(result)[1]
    assert [type(item) for item in deps.state[deep_todo.TODOS]] == [deep_todo.Todo]


def test_the_skill_tools_work_in_a_plain_agent(tmp_path: Path) -> None:
    (tmp_path / "poems").mkdir()
    (tmp_path / "poems" / "SKILL.md").write_text("---\nname: poems\ndescription: Writes poems.\n---\nRhyme.\n")
    (tmp_path / "poems" / "words.txt").write_text("moon, june\n")
    toolset = deep_skills.create_skills_toolset(directories=[deep_skills.SkillDirectory(path=tmp_path)])
    calls = [
        Call("list_skills"),
        Call("load_skill", {"skill_name": "poems"}),
        Call("read_skill_resource", {"skill_name": "poems", "resource_name": "words.txt"}),
    ]
    agent = Agent(scripted(*calls), deps_type=SESSION, toolsets=[toolset])
    listed, loaded, resource = answers(run(agent, "go", deps=create_default_deps()))
    assert "poems (project): Writes poems." in listed
    assert "Rhyme." in loaded
    assert "moon, june" in resource


def test_skills_are_found_read_and_listed_without_an_agent(tmp_path: Path) -> None:
    (tmp_path / "poems").mkdir()
    text = "---\nname: poems\ndescription: >\n  Writes\n  poems.\nmetadata: {}\n---\nRhyme.\n"
    (tmp_path / "poems" / "SKILL.md").write_text(text)
    (skill,) = deep_skills.discover_skills([{"path": tmp_path, "recursive": False}])
    assert (skill["name"], skill["description"], skill.get("frontmatter_loaded")) == ("poems", "Writes poems.", True)
    assert deep_skills.load_skill_instructions(skill.get("path", "")) == "Rhyme."
    assert deep_skills.parse_skill_md(text)[0]["name"] == "poems"
    assert "poems: Writes poems." in deep_skills.get_skills_system_prompt(None, [skill])


@pytest.mark.parametrize("how", ["model", "mapping"])
def test_task_works_in_a_plain_agent(how: str, kernel: Kernel) -> None:
    fields: dict[str, Any] = {
        "name": "poet",
        "description": "Writes poems.",
        "instructions": "Rhyme.",
        "model": scripted(then="roses are red"),
    }
    kind = deep_subagents.SubAgentConfig.model_validate(fields) if how == "model" else fields
    agent = Agent(
        scripted(
            Call("task", {"description": "sing", "subagent_type": "poet"}),
            Call("task", {"description": "judge", "subagent_type": "critic"}),
            Call("task", {"description": "paint", "subagent_type": "painter"}),
        ),
        deps_type=SESSION,
        output_type=[str, DeferredToolRequests],
        toolsets=[deep_subagents.create_subagent_toolset([kind])],
    )
    deps = create_default_deps(kernel=kernel)
    deps.subagents["critic"] = Agent(scripted(then="too long"))
    sung, judged, refused = answers(run(agent, "go", deps=deps))
    assert (sung, judged) == ("roses are red", "too long")
    assert "Types: critic, poet, general-purpose." in refused


@pytest.mark.parametrize(
    "make", [deep_summarization.SummarizationProcessor, deep_summarization.create_summarization_processor]
)
def test_the_summary_works_in_a_plain_agent(make: Callable[..., Any]) -> None:
    processor = make(model=scripted(then="a chat about cats"), trigger=("messages", 6), keep=("messages", 2))
    agent = Agent(scripted(then="cats purr"), capabilities=[ProcessHistory(processor)])
    history: list[ModelMessage] = []
    sizes: list[int] = []
    for _ in range(6):
        history = asyncio.run(agent.run("tell me of cats " * 40, message_history=history)).all_messages()
        sizes.append(len(history))
    assert max(sizes) == 6
    assert any(deep_summarization.is_summary(part) for part in history[0].parts)


# -- sessions ------------------------------------------------------------------------------------------------------


async def test_upload_file_of_deps_works(kernel: Kernel) -> None:
    backend = deep_backends.memory_backend()
    deps = create_default_deps(backend, kernel=kernel)
    upload = await deps.upload_file("../notes.txt", b"one\ntwo\n")
    assert (upload.path, upload.line_count) == ("uploads/notes.txt", 2)
    assert isinstance(upload, deep_uploads.UploadedFile)
    assert list(deps.uploads) == [upload.path]
    assert backend.snapshot() == {"/workspace/uploads/notes.txt": b"one\ntwo\n"}


async def test_a_subagent_that_was_prepared_and_put_into_deps_is_used(kernel: Kernel) -> None:
    agent = kernel.create_agent(scripted(Call("task", {"description": "sing", "subagent_type": "poet"})))
    deps = create_default_deps(kernel=kernel)
    deps.subagents["poet"] = Agent(scripted(then="roses are red"))  # no type of that name is configured
    assert answers(await agent.run("go", deps=deps)) == ["roses are red"]


def test_a_list_of_todos_that_is_put_into_deps_is_the_agents(kernel: Kernel) -> None:
    agent = kernel.create_agent(scripted(Call("read_todos")))
    deps = create_default_deps(kernel=kernel)
    deps.todos = [deep_todo.Todo(content="call Ann", status="pending", active_form="calling Ann")]
    assert "[ ] call Ann" in answers(run(agent, "go", deps=deps))[0]


def test_what_is_gone_from_deps_says_so(kernel: Kernel) -> None:
    deps = create_default_deps(kernel=kernel)
    with pytest.raises(AttributeError, match="no field and no state slot 'files'"):
        deps.files["/a.txt"] = {"content": ["one"]}
    with pytest.raises(AttributeError, match="no field and no state slot 'files'") as caught:
        deps.files = {}
    assert "Did you mean" not in str(caught.value)


async def test_run_with_files_works(kernel: Kernel) -> None:
    agent = kernel.create_agent(
        scripted(Call("read_file", {"path": "uploads/a.csv"}), then="one line"), backend="memory"
    )
    deps = create_default_deps(kernel=kernel)
    assert await deep_uploads.run_with_files(agent, "How long?", deps, [("a.csv", b"month\n")]) == "one line"


def test_every_feature_of_the_default_agent_is_in_one_call() -> None:
    with kernel_of_features() as kernel:
        agent = create_deep_agent("test", kernel=kernel)
        assert {tool.plugin for tool in kernel.explain(agent).tools} == {"filesystem", "skills", "subagents", "todo"}
