"""Each hook's example, as its page shows it, given to a kernel as a plugin: it is registered, and it takes effect."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import logging
import sys
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from pydantic_ai import Agent, FunctionToolset, RunContext
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from deep_core import ConfigError, Kernel, PromptSection, create_default_deps, hookimpl
from deep_core.plugins import hookspecs
from tests.docs_pages import ROOT, blocks
from tests.stubs import Call, Script, function_model

SPECS = [name for name, f in vars(hookspecs).items() if inspect.isfunction(f) and hasattr(f, "deep_policy")]


def example(hook: str) -> ModuleType:
    """The one python block of the hook's page, as a module."""
    (block,) = [b for b in blocks(ROOT / "docs" / "hooks" / f"{hook}.md") if b.language == "python"]
    module = ModuleType("example")
    sys.modules["example"] = module
    exec(compile(block.code, f"docs/hooks/{hook}.md", "exec"), vars(module))
    return module


@pytest.fixture(autouse=True)
def _no_example_left() -> Iterator[None]:
    yield
    sys.modules.pop("example", None)


def kernel_with(*plugins: object) -> Kernel:
    return Kernel(plugins=plugins, discover=False, strict=True)


def run(kernel: Kernel, agent: Agent[Any, Any], prompt: str = "go", **more: Any) -> Any:
    deps = more.pop("deps", None) or create_default_deps(kernel=kernel)
    return asyncio.run(agent.run(prompt, deps=deps, **more))


def returned(result: Any) -> list[str]:
    """What the tools of a run returned."""
    parts = [part for message in result.all_messages() if isinstance(message, ModelRequest) for part in message.parts]
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]


def forecast(city: str) -> str:
    """Tomorrow's weather in a city."""
    return f"Sunny in {city}"


# -- one check a hook ------------------------------------------------------------------------------------------------


def check_hookspecs(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    class Traveller:
        @hookimpl(of="example")
        def deep_cities(self, context: Any) -> list[str]:
            return ["Oslo"]

    found: list[Any] = []

    def read(context: Any) -> list[Any]:
        found.extend(context.collect("deep_cities"))
        return []

    vars(module)["deep_toolsets"] = hookimpl(specname="deep_toolsets")(read)
    kernel = kernel_with(module, Traveller())
    kernel.create_agent("test")
    assert kernel.hooks["deep_cities"] == "example"
    assert [(c.plugin, c.value) for c in found] == [("traveller", "Oslo")]
    # Without the owner the implementation sleeps, and is no misspelling.
    assert kernel_with(Traveller()).plugins["traveller"].asleep == (("deep_cities", "example"),)


def check_options(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    units: list[str] = []

    def read(context: Any) -> list[Any]:
        units.append(context.options(module.WeatherOptions).unit)
        return []

    vars(module)["deep_toolsets"] = hookimpl(specname="deep_toolsets")(read)
    kernel = kernel_with(module)
    kernel.create_agent("test")
    kernel.create_agent("test", example={"unit": "kelvin"})
    kernel.create_agent("test", plugins=[module.WeatherOptions(unit="fahrenheit")])
    assert units == ["celsius", "kelvin", "fahrenheit"]
    with pytest.raises(ConfigError, match="Did you mean 'unit'"):
        kernel.create_agent("test", example={"units": "kelvin"})


def check_state(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)

    def like(ctx: RunContext[Any], city: str) -> str:
        ctx.deps.state[module.FAVORITES].append(city)
        return "noted"

    agent = kernel.create_agent(function_model(Script(Call("like", {"city": "Oslo"}), "done")), tools=[like])
    deps = create_default_deps(kernel=kernel)
    run(kernel, agent, deps=deps)
    assert deps.state["favorites"] == ["Oslo"]
    assert kernel.load_deps(deps.dump()).state[module.FAVORITES] == ["Oslo"]


def check_session_methods(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    deps = create_default_deps(kernel=kernel)
    deps.visit("Oslo")
    assert deps.state[module.VISITED] == ["Oslo"]
    with pytest.raises(AttributeError, match="visits"):
        _ = deps.visits

    class Clash:
        @hookimpl
        def deep_session_methods(self) -> dict[str, Any]:
            return {"visit": print}

    with pytest.raises(Exception, match=r"(?s)visit.*(example.*clash|clash.*example)"):
        kernel_with(module, Clash())


def check_toolsets(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    agent = kernel.create_agent(function_model(Script(Call("forecast", {"city": "Oslo"}), "done")))
    result = run(kernel, agent)
    assert result.output == "done"
    assert returned(result) == ["Sunny in Oslo"]
    (tool,) = kernel.explain(agent).tools
    assert (tool.name, tool.plugin, tool.tags) == ("forecast", "example", ("read",))


def check_backends(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    import deep_backends

    kernel = kernel_with(module)

    async def note(ctx: RunContext[Any]) -> str:
        await ctx.workspace.write_text("note.txt", "hello")
        return await ctx.workspace.read_text("note.txt")

    agent = kernel.create_agent(function_model(Script(Call("note"), "done")), tools=[note], backend="scratch")
    deps = create_default_deps(kernel=kernel)
    assert returned(run(kernel, agent, deps=deps)) == ["hello"]
    assert isinstance(deps.backend, deep_backends.LocalBackend)
    assert (kernel.context("example").session_dir(deps) / "note.txt").read_text() == "hello"


def check_history_processors(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    model = function_model(Script("done"))
    result = run(kernel, kernel.create_agent(model), "my card is 1234 5678")
    (view,) = model.player.views
    assert view.messages[-1].text == "my card is ****"
    assert "1234 5678" in str(result.all_messages())  # persist=False: what is stored is whole


def check_skill_loaders(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    found: list[Any] = []

    class Reader:
        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[Any]:
            found.extend(context.collect("deep_skill_loaders"))
            return []

    kernel_with(module, Reader()).create_agent("test")
    ((plugin, loader),) = [(c.plugin, c.value) for c in found]
    assert plugin == "example"
    (skill,) = asyncio.run(loader.list(None))
    assert asyncio.run(loader.read(None, skill.name)) == "Say hello."
    for call, error in (
        (loader.read(None, "unknown"), KeyError),
        (loader.resource(None, "unknown", "SKILL.md"), KeyError),
        (loader.resource(None, skill.name, "no.txt"), FileNotFoundError),
    ):
        with pytest.raises(error):
            asyncio.run(call)


def check_prompt_sections(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    with_tool, without = function_model(Script("done")), function_model(Script("done"))
    run(kernel, kernel.create_agent(with_tool, tools=[forecast]))
    run(kernel, kernel.create_agent(without))
    assert with_tool.player.views[0].system == "Use forecast in celsius."
    assert without.player.views[0].system == ""


def check_capabilities(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    thinking: list[Any] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        thinking.append(info.model_request_parameters.thinking)
        return ModelResponse([TextPart("done")])

    kernel = kernel_with(module)
    agent = kernel.create_agent(FunctionModel(answer, profile={"supports_thinking": True}))
    run(kernel, agent)
    assert thinking == [True]
    assert [item["id"] for item in kernel.explain(agent).capabilities if item["plugin"] == "example"] == ["thinking"]


def check_check_call(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    toolset: FunctionToolset[Any] = FunctionToolset()
    toolset.tool_plain(metadata={"tags": ["network"]})(forecast)
    script = Script([Call("forecast", {"city": "Atlantis"}), Call("forecast", {"city": "Oslo"})], "done")
    result = run(kernel, kernel.create_agent(function_model(script), toolsets=[toolset]))
    refused, answered = returned(result)
    assert "Atlantis has no weather service" in refused
    assert answered == "Sunny in Oslo"


def check_resolve_model(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    assert run(kernel, kernel.create_agent("acme:echo")).output == "echo"


def check_agent_created(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="deep.example"):
        kernel_with(module).create_agent("test", name="scout")
    assert caplog.messages == ["created scout"]


def check_run_event(module: ModuleType, caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_with(module)
    script = Script(Call("forecast", {"city": "Oslo"}), "done")
    agent = kernel.create_agent(function_model(script), tools=[forecast])
    with caplog.at_level(logging.DEBUG, logger="deep.example"):
        run(kernel, agent)
    kinds = [message.partition("(")[0] for message in caplog.messages]
    assert kinds == ["RunStartEvent", "RequestEvent", "ToolEvent", "ToolEvent", "RequestEvent", "RunEndEvent"]


CHECKS: dict[str, Callable[[ModuleType, pytest.LogCaptureFixture], None]] = {
    name.replace("check_", "deep_", 1): check for name, check in list(globals().items()) if name.startswith("check_")
}


def test_every_hook_has_its_check() -> None:
    assert sorted(CHECKS) == sorted(SPECS)


@pytest.mark.parametrize("hook", SPECS)
def test_the_example_of_a_hook_takes_effect(hook: str, caplog: pytest.LogCaptureFixture) -> None:
    module = example(hook)
    assert hook in (kernel_with(module).plugins["example"].hooks or ())
    CHECKS[hook](module, caplog)


@pytest.mark.parametrize("hook", SPECS)
def test_a_misspelt_hook_is_an_error_with_a_suggestion(hook: str) -> None:
    module = example(hook)
    function = vars(module).pop(hook)
    setattr(module, f"{hook}s_", function)
    with pytest.raises(Exception, match=f"Did you mean '{hook}'"):
        kernel_with(module)


def test_a_plugin_that_contributes_nothing_of_a_hook_changes_nothing() -> None:
    """The checks above can fail: without the example there is no effect."""

    class Silent:
        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[PromptSection]:
            return []

    kernel = kernel_with(Silent())
    model = function_model(Script("done"))
    result = run(kernel, kernel.create_agent(model))
    assert (model.player.views[0].system, model.player.views[0].tools, returned(result)) == ("", [], [])


# -- the hooks of our plugins ----------------------------------------------------------------------------------------

OWNED = [
    pytest.param(path.parent.name.removeprefix("deep_"), name, function, id=name)
    for path in sorted(ROOT.glob("plugins/*/src/*/hookspecs.py"))
    for name, function in vars(importlib.import_module(f"{path.parent.name}.hookspecs")).items()
    if hasattr(function, "deep_policy")
]


@pytest.mark.parametrize(("owner", "hook", "spec"), OWNED)
def test_the_example_of_a_plugins_hook_is_registered_with_its_owner(owner: str, hook: str, spec: Any) -> None:
    code = textwrap.dedent((inspect.getdoc(spec) or "").partition("Example:\n")[2])
    module = ModuleType("example")
    exec(compile(code, f"the example of {hook}", "exec"), vars(module))
    with Kernel(plugins=[importlib.import_module(f"deep_{owner}"), module], discover=False, strict=True) as kernel:
        record = kernel.plugins["example"]
        assert (record.hooks, record.asleep, kernel.hooks[hook]) == ((hook,), (), owner)


def test_every_hook_of_a_plugin_has_an_example() -> None:
    assert len(OWNED) > 5
    assert [case.id for case in OWNED if "Example:\n" not in (inspect.getdoc(case.values[2]) or "")] == []
