"""Contexts: what works in a hook and what only at run time; a plugin's options and folders outside any agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic_ai import FunctionToolset, RunContext
from pydantic_ai.models.test import TestModel
from pydantic_ai.workspaces import LocalWorkspaceBackend, UnavailableWorkspace, WorkspaceBackend

from deep_core import (
    BackendContext,
    DeepAgentDeps,
    Kernel,
    PluginContext,
    PluginError,
    PluginOptions,
    PluginWarning,
    create_default_deps,
)
from deep_core.names import folder_name
from tests.plugins_by_hand import Site, agent_of, kernel_of, plugin, returns, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]

# -- in a hook and at run time -----------------------------------------------------------------------------------------


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


# -- outside any agent -------------------------------------------------------------------------------------------------


class WeatherOptions(PluginOptions):
    unit: str = "celsius"


def test_a_context_outside_any_agent_has_the_plugins_options_folders_and_logger(own_home: Path) -> None:
    closed: list[str] = []
    config = {"plugins": {"weather": {"options": {"unit": "kelvin"}}}}
    with kernel_of(plugin("weather", options=WeatherOptions), config=config) as kernel:
        context = kernel.context("weather")
        assert type(context) is PluginContext
        assert context.plugin == "weather"
        assert context.options(WeatherOptions).unit == "kelvin"
        assert context.logger.name == "deep.weather"
        assert context.data_dir.is_dir()
        assert context.data_dir.is_relative_to(own_home)
        assert context.cache_dir.is_dir()
        context.on_close(lambda: closed.append("weather"))
    assert closed == ["weather"]
    with pytest.raises(PluginError, match="this kernel is closed"):
        kernel.context("weather")


def test_a_context_outside_any_agent_has_the_same_folders_as_one_of_an_agent() -> None:
    seen: list[Any] = []
    kernel = kernel_of(plugin("weather", toolsets=lambda context: seen.append(context) or []))
    kernel.create_agent(scripted())
    context = kernel.context("weather")
    assert (context.data_dir, context.cache_dir) == (seen[0].data_dir, seen[0].cache_dir)


def test_a_plugin_without_options_has_the_defaults() -> None:
    assert kernel_of(plugin("weather", toolsets=[])).context("weather").options(WeatherOptions).unit == "celsius"


def test_options_by_another_model_are_an_error_outside_an_agent_too() -> None:
    class Strange(PluginOptions):
        pass

    with pytest.raises(PluginError, match=r"Strange.*WeatherOptions"):
        kernel_of(plugin("weather", options=WeatherOptions)).context("weather").options(Strange)


def test_there_is_no_context_of_a_plugin_that_is_not_active(site: Site) -> None:
    source = "from deep_core import hookimpl\n@hookimpl\ndef deep_toolsets(context): return []\n"
    site.install("sun", source)
    site.install("ice", "1 / 0")
    with pytest.warns(PluginWarning):
        kernel = Kernel(disable=["sun"])
    with pytest.raises(PluginError, match=r"plugin sun 1\.0 \(acme-sun\) is disabled: disabled in code"):
        kernel.context("sun")
    with pytest.raises(PluginError, match=r"plugin ice 1\.0 \(acme-ice\) is failed: ZeroDivisionError"):
        kernel.context("ice")
    with pytest.raises(PluginError, match=r"this kernel has no plugin 'suns'\. Did you mean 'sun'\?"):
        kernel.context("suns")


def test_the_data_of_all_plugins_is_where_the_kernel_says(tmp_path: Path) -> None:
    kernel = kernel_of(plugin("sun", toolsets=[]), plugin("rain", toolsets=[]), data_dir=tmp_path / "data")
    folders = [kernel.context(name).data_dir for name in ("sun", "rain")]
    assert folders == [tmp_path / "data/plugins/sun", tmp_path / "data/plugins/rain"]
    assert kernel.data_dir == tmp_path / "data"
    assert not kernel.context("sun").cache_dir.is_relative_to(tmp_path / "data")


# -- a folder for each session -----------------------------------------------------------------------------------------

IDS = ["", ".", "..", "../x", "a/b", "a\\b", "/etc/passwd", "x" * 5000, "Ann", "ann", "ANN", "Änn", "ä", "con", "NUL",
       "a\0b", "\ud800", "🙂", " ", "ann.", "a:b", "~", "-", "session"]  # fmt: skip


def test_any_session_id_has_a_folder_of_its_own(tmp_path: Path) -> None:
    context = kernel_of(plugin("archive", toolsets=[]), data_dir=tmp_path).context("archive")
    for session_id in IDS:
        (context.session_dir(session_id) / "id").write_text(ascii(session_id))
    for session_id in IDS:
        assert (context.session_dir(session_id) / "id").read_text() == ascii(session_id)
    home = tmp_path / "plugins/archive/sessions"
    assert len(list(home.iterdir())) == len(IDS)
    assert [path.name for path in tmp_path.iterdir()] == ["plugins"]


def test_a_session_has_the_folder_of_its_id(tmp_path: Path) -> None:
    context = kernel_of(plugin("archive", toolsets=[]), data_dir=tmp_path).context("archive")
    deps = create_default_deps()
    assert context.session_dir(deps) == context.session_dir(deps.session_id)
    assert context.session_dir(deps).is_dir()


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


TEXTS = st.text(alphabet=st.characters(), max_size=200)


@given(TEXTS, TEXTS)
@example("ann", "Ann")
@example("CON", "con")
@example("a/b", "a-b")
@example("", "session")
def test_folder_names_are_portable_and_no_two_texts_share_one(one: str, other: str) -> None:
    name = folder_name(one)
    assert 0 < len(name) <= 80
    assert not set(name) - set("abcdefghijklmnopqrstuvwxyz0123456789-_.")
    assert name[0].isalnum()
    assert name.partition(".")[0] not in ("con", "prn", "aux", "nul", "com1", "lpt1")
    assert (name.casefold() == folder_name(other).casefold()) == (one == other)
