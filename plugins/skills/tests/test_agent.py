"""An agent with skills: it sees the catalog, loads a skill when it needs it, and never twice."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deep_skills import SKILLS, SkillsOptions, create_skills_toolset
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolReturnPart

from deep_core import Kernel, Processor, create_default_deps
from tests.stubs import Call, RequestView, Script, Turn, function_model

pytestmark = pytest.mark.anyio
Maker = Callable[..., Agent[Any, Any]]
Results = Callable[[list[Any]], list[str]]
Contexts = Callable[[list[Any], str], list[str]]
Write = Callable[..., Path]


def load(name: str) -> Call:
    return Call("load_skill", {"skill_name": name})


async def test_what_is_shown_of_a_skill_grows_as_it_is_needed(
    project: Path, skill: Write, make_agent: Maker, results: Results, contexts: Contexts
) -> None:
    folder = skill(project / ".deep/skills", "pdf", "Fill PDF forms.", body="Use the script.")
    (folder / "scripts").mkdir()
    (folder / "scripts/fill.py").write_text("print('fill')\n")
    read = Call("read_skill_resource", {"skill_name": "pdf", "resource_name": "scripts/fill.py"})
    seen: list[str] = []

    def first(view: RequestView) -> Call:
        seen.append(str(view.messages))
        return load("pdf")

    result = await make_agent(function_model(Script(first, read, "done"))).run("go", deps=create_default_deps())
    assert "pdf: Fill PDF forms." in seen[0]
    assert "Use the script." not in seen[0]
    loaded, resource = results(result.all_messages())
    assert loaded.startswith("# Skill: pdf\n")
    assert "Use the script." in loaded
    assert "- scripts/fill.py" in loaded
    assert f"Directory: {folder}" in loaded
    assert "print(" not in loaded
    assert resource == "print('fill')\n"
    assert len(contexts(result.all_messages(), "catalog")) == 1


async def test_without_skills_nothing_is_said_and_the_tools_say_so(
    project: Path, make_agent: Maker, results: Results, contexts: Contexts
) -> None:
    script = Script([Call("list_skills"), load("x")], "done")
    result = await make_agent(function_model(script)).run("go", deps=create_default_deps())
    assert contexts(result.all_messages(), "catalog") == []
    assert results(result.all_messages()) == ["No skills.", "No skill 'x'. There are no skills."]


def test_the_three_tools_cost_at_most_690_characters() -> None:
    definitions = [tool.tool_def for tool in create_skills_toolset().tools.values()]
    shown = [
        {"name": d.name, "description": d.description, "parameters": d.parameters_json_schema} for d in definitions
    ]
    assert sorted(d.name for d in definitions) == ["list_skills", "load_skill", "read_skill_resource"]
    assert sum(len(json.dumps(tool, separators=(",", ":"))) for tool in shown) <= 690


async def test_a_skill_is_not_injected_twice_but_again_after_it_changed(
    project: Path, skill: Write, make_agent: Maker, results: Results
) -> None:
    folder = skill(project / ".deep/skills", "one", body="First text.")

    def changed(view: RequestView) -> Call:
        (folder / "SKILL.md").write_text("---\nname: one\ndescription: d\n---\nSecond text.")
        return load("one")

    script = Script([load("one"), load("one")], load("one"), "x", load("one"), changed, "done")
    agent, deps = make_agent(function_model(script)), create_default_deps()
    first = await agent.run("go", deps=deps)
    result = await agent.run("again", deps=deps, message_history=first.all_messages())
    texts = results(result.all_messages())
    given = ["# Skill" in text for text in texts]
    assert (sum(given[:2]), given[2:]) == (1, [False, False, True]), "one of the two side by side"
    assert sum("already in use" in text for text in texts) == 3
    assert "Second text." in texts[4]


def cut(messages: list[ModelMessage]) -> list[ModelMessage]:
    """Compact: keep only the last call and its result, once there is an older result."""
    last = max((n for n, message in enumerate(messages) if isinstance(message, ModelResponse)), default=0)
    old = any(isinstance(part, ToolReturnPart) for message in messages[:last] for part in message.parts)
    return messages[last:] if old else messages


async def test_a_skill_in_use_survives_compaction_and_may_be_loaded_again(
    project: Path, skill: Write, make_agent: Maker, results: Results, contexts: Contexts
) -> None:
    skill(project / ".deep/skills", "long", body="Rule: " + "never stop. " * 800 + "END")
    skill(project / ".deep/skills", "other", body="Something else.")
    ls, seen, again = Call("ls"), list[str](), list[str]()

    def look(view: RequestView) -> Call:
        seen.append(str(view.messages))
        return ls

    def reread(view: RequestView) -> Call:
        again.extend(result.text for result in view.results)
        return ls

    script = Script(load("long"), ls, look, look, look, load("long"), reread, "done")
    agent = make_agent(function_model(script), history_processors=[Processor("cut", cut)])
    deps = create_default_deps()
    result = await agent.run("go", deps=deps)
    assert any("Skills in use" in text and "Rule: never stop." in text for text in seen)
    assert all(len(text) < 8_000 for text in contexts(result.all_messages(), "active"))
    assert ["END" in text for text in again] == [True], "the whole text may be had again"
    assert list(deps.state[SKILLS]) == ["long"]


async def test_two_sessions_on_one_agent_never_see_each_others_skills(
    project: Path, skill: Write, make_agent: Maker, kernel: Kernel, results: Results
) -> None:
    for name in ("alpha", "beta"):
        skill(project / ".deep/skills", name, body=f"canary-{name}")
    barrier = asyncio.Barrier(2)

    async def tick() -> str:
        """Wait for the other session."""
        await barrier.wait()
        return "tock"

    def step(view: RequestView) -> Turn:
        name = next(m.text for m in view.messages if m.role == "user")
        done = sum(m.role == "tool" for m in view.messages)
        steps = [Call("tick"), load(name), Call("tick"), load(name), Call("tick")]
        if done == len(steps):
            return Turn("done")
        return Turn(calls=(Call(steps[done].name, steps[done].args, f"{name}{done}"),))

    agent = make_agent(function_model(Script(then=step)), tools=[tick])
    one, two = create_default_deps(), create_default_deps()
    runs = await asyncio.gather(agent.run("alpha", deps=one), agent.run("beta", deps=two))
    assert [list(deps.state[SKILLS]) for deps in (one, two)] == [["alpha"], ["beta"]]
    for run, other in zip(runs, ("beta", "alpha"), strict=True):
        assert f"canary-{other}" not in str(run.all_messages())
        assert "already in use" in results(run.all_messages())[3]
    assert one.clone_for_subagent().state[SKILLS] == {}
    again = kernel.load_deps(one.dump())
    assert again.state[SKILLS] == one.state[SKILLS]


@pytest.mark.slow
def test_four_threads_with_a_loop_each_share_an_agent_and_nothing_else(
    project: Path, skill: Write, make_agent: Maker
) -> None:
    for number in range(4):
        skill(project / ".deep/skills", f"s{number}", body=f"canary-{number}")

    def step(view: RequestView) -> Turn:
        name = next(m.text for m in view.messages if m.role == "user")
        done = sum(m.role == "tool" for m in view.messages)
        return Turn("done") if done == 3 else Turn(calls=(Call("load_skill", {"skill_name": name}, f"{name}-{done}"),))

    agent = make_agent(function_model(Script(then=step)))

    def work(name: str) -> tuple[list[str], str]:
        async def sessions() -> tuple[list[str], str]:
            all_deps = [create_default_deps() for _ in range(5)]
            runs = await asyncio.gather(*(agent.run(name, deps=deps) for deps in all_deps))
            return [used for deps in all_deps for used in deps.state[SKILLS]], str([r.all_messages() for r in runs])

        return asyncio.run(sessions())

    names = [f"s{number}" for number in range(4)]
    with ThreadPoolExecutor(4) as threads:
        outcomes = list(threads.map(work, names))
    for name, (used, messages) in zip(names, outcomes, strict=True):
        assert used == [name] * 5
        assert {f"canary-{n}" for n in range(4) if f"canary-{n}" in messages} == {f"canary-{name[1]}"}


async def test_a_folder_that_changes_within_a_run_does_not_change_the_catalogue(
    project: Path, skill: Write, make_agent: Maker, contexts: Contexts, results: Results
) -> None:
    skill(project / ".deep/skills", "one")

    def added(view: RequestView) -> Call:
        skill(project / ".deep/skills", "two")
        return Call("list_skills")

    agent, deps = make_agent(function_model(Script(added, "done", "again"))), create_default_deps()
    first = await agent.run("go", deps=deps)
    (catalog,) = contexts(first.all_messages(), "catalog")
    assert "two" not in catalog
    assert "two" in results(first.all_messages())[0], "the tool reads what is there now"
    second = await agent.run("go on", deps=deps, message_history=first.all_messages())
    assert ["- two:" in text for text in contexts(second.all_messages(), "catalog")] == [False, True]


async def test_precedence_and_what_is_shadowed(
    project: Path, home: Path, skill: Write, make_agent: Maker, results: Results
) -> None:
    skill(project / ".claude/skills", "deploy", "The project's.")
    theirs = skill(home / ".agents/skills", "deploy", "The user's.")
    skill(home / ".agents/skills", "mine", "Only the user's.")
    skill(project / "more", "deploy", "The option's.")
    agent = make_agent(
        function_model(Script(Call("list_skills"), load("deploy"), "done")),
        plugins=[SkillsOptions(directories=["more"])],
    )
    result = await agent.run("go", deps=create_default_deps())
    listed, loaded = results(result.all_messages())
    assert "- deploy (project, replaces project " in listed
    assert f"user {theirs}" in listed
    assert "The option's." in listed
    assert "- mine (user): Only the user's." in listed
    assert f"Directory: {project / 'more/deploy'}" in loaded


async def test_sources_can_be_switched_off(project: Path, home: Path, skill: Write, make_agent: Maker) -> None:
    skill(project / ".claude/skills", "ours")
    skill(home / ".claude/skills", "mine")
    seen: list[str] = []

    def look(view: RequestView) -> str:
        seen.append(str(view.messages))
        return "done"

    for options in ({"project": False}, {"user": False}, {"project": False, "user": False}):
        agent = make_agent(function_model(Script(look)), skills=options)
        await agent.run("go", deps=create_default_deps())
    assert [("ours" in text, "mine" in text) for text in seen] == [(False, True), (True, False), (False, False)]


async def test_broken_files_are_reported_once_each_and_stop_nothing(
    project: Path, skill: Write, make_agent: Maker, results: Results, caplog: pytest.LogCaptureFixture
) -> None:
    skill(project / ".deep/skills", "fine")
    broken = project / ".deep/skills/broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text('---\nname: broken\ndescription: "never closed\n---\nx')
    agent = make_agent(function_model(Script(Call("list_skills"), Call("list_skills"), "done")))
    result = await agent.run("go", deps=create_default_deps())
    line = f"{broken / 'SKILL.md'}:3: the frontmatter is not YAML: found unexpected end of stream"
    assert [text.count(line) for text in results(result.all_messages())] == [1, 1]
    assert "- fine (project)" in results(result.all_messages())[0]
    assert [record.message for record in caplog.records if "broken" in record.message] == [f"{line} (skipped)"]


async def test_a_models_mistakes_are_answered(project: Path, skill: Write, make_agent: Maker, results: Results) -> None:
    folder = skill(project / ".deep/skills", "pdf-forms")
    (folder / "guide.md").write_text("Guide")
    (folder / "pic.png").write_bytes(b"\x89PNG\0\xff")
    (folder / "sub").mkdir()

    def read(name: Any, **more: Any) -> Call:
        return Call("read_skill_resource", {"skill_name": "pdf-forms", "resource_name": name, **more})

    calls = [
        load("pdf-form"),
        Call("load_skill", {"skill_name": 7}),
        Call("load_skill", {}),
        read("guide.txt"),
        read("../../../etc/passwd"),
        read("/etc/passwd"),
        read("sub"),
        read("pic.png"),
        read("guide.md", offset=2),
        read("guide.md", offset="many"),
        load("PDF-Forms"),
    ]
    result = await make_agent(function_model(Script(calls, "done"))).run("go", deps=create_default_deps())
    texts = results(result.all_messages())
    wanted = [
        "Did you mean 'pdf-forms'?",
        "skill_name is missing or not text",
        "skill_name is missing or not text",
        "Did you mean 'guide.md'?",
        "is not a path inside the skill",
        "is not a path inside the skill",
        "sub is a folder",
        "pic.png is not text (6 bytes)",
        "ide",
        "offset counts characters",
        "# Skill: pdf-forms",
    ]
    assert [part in text for part, text in zip(wanted, texts, strict=True)] == [True] * len(wanted), texts


async def test_long_instructions_are_paged(project: Path, skill: Write, make_agent: Maker, results: Results) -> None:
    body = "".join(f"{n:06}\n" for n in range(43_000))  # 300 KB
    skill(project / ".deep/skills", "long", body=body)
    script = Script(load("long"), Call("load_skill", {"skill_name": "long", "offset": 30_000}), "done")
    result = await make_agent(function_model(script)).run("go", deps=create_default_deps())
    first, second = results(result.all_messages())
    assert len(first) < 30_500
    assert "more characters: offset=30000)" in first
    shown = first.split("## Instructions\n\n")[1].split("\n… (")[0]
    assert shown + second.split("\n… (")[0] == body[:60_000]


async def test_a_loader_of_another_plugin_that_fails_leaves_the_others(
    project: Path, skill: Write, make_agent: Maker, results: Results
) -> None:
    class Broken:
        source = "package"

        async def list(self, ctx: Any) -> Any:
            raise RuntimeError("no network")

        async def read(self, ctx: Any, name: str) -> str:
            raise KeyError(name)

        async def resource(self, ctx: Any, name: str, path: str) -> bytes:
            raise KeyError(name)

    class Acme:
        @staticmethod
        def deep_skill_loaders(context: Any) -> list[Any]:
            return [Broken()]

    from deep_core import hookimpl

    Acme.deep_skill_loaders = staticmethod(hookimpl(Acme.deep_skill_loaders))  # type: ignore[method-assign]
    import deep_backends
    import deep_skills

    skill(project / ".deep/skills", "fine")
    with Kernel(plugins=[deep_skills, deep_backends, Acme], discover=False, config={}) as kernel:
        agent = kernel.create_agent(function_model(Script(Call("list_skills"), "done")), backend="memory")
        result = await agent.run("go", deps=create_default_deps())
    (text,) = results(result.all_messages())
    assert "- fine (project)" in text
    assert "this loader failed: RuntimeError: no network" in text
