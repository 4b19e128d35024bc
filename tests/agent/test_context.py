"""The context of a hook: what needs an agent works at run time only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import LocalWorkspaceBackend, UnavailableWorkspace, WorkspaceBackend

from deep_core import BackendContext, DeepAgentDeps, PluginError, create_default_deps
from tests.plugins_by_hand import agent_of, kernel_of, plugin, returns, run, scripted
from tests.stubs import Call


@pytest.mark.parametrize("what", ["backend", "create_agent"])
@pytest.mark.parametrize("hook", ["toolsets", "sections", "processors", "capabilities", "backends", "skill_loaders"])
def test_what_needs_a_made_agent_is_one_clear_error_in_a_hook(what: str, hook: str) -> None:
    def contribute(context: Any) -> Any:
        return context.backend(create_default_deps()) if what == "backend" else context.create_agent()

    with pytest.raises(PluginError, match=rf"plugin eager .*context\.{what}\(\) works at run time only"):
        agent_of(plugin("eager", **{hook: contribute}))


def test_an_agent_that_is_being_announced_makes_no_other() -> None:
    kernel = kernel_of(plugin("eager", agent_created=lambda agent, context: context.create_agent()))
    kernel.create_agent(scripted())
    (incident,) = kernel.incidents
    assert "context.create_agent() works at run time only" in incident.error


def test_a_tool_reaches_the_backend_and_makes_agents() -> None:
    contexts: list[Any] = []
    toolset = FunctionToolset[Any](id="work")

    @toolset.tool
    async def work(ctx: RunContext[Any]) -> str:
        child = contexts[0].create_agent(scripted(then="from the child"))
        result = await child.run("go", deps=ctx.deps.clone_for_subagent())
        return f"{result.output}, in {type(contexts[0].backend(ctx.deps)).__name__}"

    def toolsets(context: Any) -> list[Any]:
        contexts.append(context)
        return [toolset] if context.depth == 0 else []

    result = run(agent_of(plugin("worker", toolsets=toolsets), model=scripted(Call("work", {}))))
    (part,) = returns(result.all_messages())
    assert part.content == f"from the child, in {UnavailableWorkspace.__name__}"


def test_a_hook_can_resolve_a_model_by_the_plugins_and_by_pydantic_ai() -> None:
    found: list[Any] = []

    def toolsets(context: Any) -> list[Any]:
        found.extend([context.resolve_model("acme:echo"), context.resolve_model("test")])
        return []

    def resolve(model_id: str) -> Any:
        return TestModel(custom_output_text="acme") if model_id == "acme:echo" else None

    agent_of(plugin("uses", toolsets=toolsets), plugin("knows", resolve_model=resolve))
    assert [model.custom_output_text for model in found] == ["acme", None]


@pytest.mark.parametrize("idles", [False, True])
def test_a_plugin_with_nothing_to_do_at_a_hook_is_not_called_there_and_the_others_are(idles: bool) -> None:
    toolset, asked = FunctionToolset[Any](id="work"), list[str]()

    @toolset.tool_plain
    def work() -> str:
        return "done"

    def sections(context: Any) -> list[Any]:
        if idles:
            context.idle("deep_check_call", "deep_run_event")
        return []

    def watching(name: str, **more: Any) -> Any:
        return plugin(
            name,
            check_call=lambda call: asked.append(f"{name} checks"),
            run_event=lambda event: asked.append(f"{name} hears"),
            **more,
        )

    works = plugin("worker", toolsets=lambda context: [toolset])
    agent = agent_of(works, watching("maybe", sections=sections), watching("always"), model=scripted(Call("work", {})))
    run(agent)
    assert {"always checks", "always hears"} <= set(asked)
    assert ({"maybe checks", "maybe hears"} <= set(asked)) is not idles
    assert any(line.startswith("maybe") for line in asked) is not idles


# -- a backend for each session ----------------------------------------------------------------------------------------


def in_its_folder(context: BackendContext) -> WorkspaceBackend:
    """A backend that keeps a session's files."""
    return LocalWorkspaceBackend(context.session_dir(context.session_id))


async def keep(ctx: RunContext[Any], text: str) -> str:
    """Add a line to the session's notes, and return all of them."""
    home = Path(str(await ctx.workspace.working_dir()))
    with (home / "notes").open("a") as file:
        file.write(f"{text}\n")
    return (home / "notes").read_text()


@pytest.mark.parametrize("how", ["by name", "from code"])
def test_a_backend_factory_gets_the_sessions_id_so_that_its_files_outlive_the_process(tmp_path: Path, how: str) -> None:
    def go_on(text: str, deps: DeepAgentDeps[Any]) -> str:
        kernel = kernel_of(plugin("archive", backends={"archive": in_its_folder}), data_dir=tmp_path)
        backend = "archive" if how == "by name" else in_its_folder
        agent = kernel.create_agent(scripted(Call("keep", {"text": text})), tools=[keep], backend=backend)
        (part,) = returns(run(agent, deps=deps).all_messages())
        return str(part.content)

    ann, ben = create_default_deps(), create_default_deps()
    assert go_on("milk", ann) == "milk\n"
    assert go_on("bread", DeepAgentDeps[Any].load(ann.dump())) == "milk\nbread\n"
    assert go_on("tea", ben) == "tea\n"
