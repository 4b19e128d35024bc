"""A plugin that fails for one agent is left out of that agent; the kernel asks it again for the next."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from pydantic_ai import FunctionToolset

from deep_core import AgentConfig, Kernel, PluginError, PluginWarning, Without, create_default_deps, hookimpl
from tests.plugins_by_hand import TRAVEL, Site, Tools, plugin, returns, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]

MOODY = """
import sys
from deep_core import hookimpl

failing = False

def moody(value):
    if failing:
        raise RuntimeError("not today")
    return value

{more}

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset
    toolset = FunctionToolset(id="moody")
    toolset.add_function(lambda: "ok", name="moody", description="Moody.")
    return [toolset]
"""
HOOKS = {
    "a contribution hook": """
@hookimpl
def deep_prompt_sections(context):
    return moody([])
""",
    "deep_options": """
from deep_core import PluginOptions

class Options(PluginOptions):
    unit: str = "celsius"

@hookimpl
def deep_options():
    return moody(Options)
""",
    "the validation of its options": """
from pydantic import field_validator
from deep_core import PluginOptions

class Options(PluginOptions):
    unit: str = "celsius"

    @field_validator("unit")
    @classmethod
    def check(cls, value):
        return moody(value)

@hookimpl
def deep_options():
    return Options
""",
    "vetting": """
from pydantic_ai.capabilities import AbstractCapability

class Odd(AbstractCapability):
    def get_native_tools(self):
        return moody([])

@hookimpl
def deep_capabilities(context):
    return [Odd()]
""",
}
CONFIG = {"plugins": {"moody": {"options": {"unit": "kelvin"}}}}


def tools_of(kernel: Kernel, **how: Any) -> list[str]:
    """The tools of a new agent, as its model sees them."""
    model = scripted()
    run(kernel.create_agent(model, **how), deps=create_default_deps(kernel=kernel))
    return list(model.player.views[0].tools)


@pytest.fixture
def moody(site: Site) -> Callable[[str], Any]:
    """Installs the plugin `moody` with one more place to fail; returns its module once it is loaded."""

    def install(place: str) -> Callable[[], Any]:
        site.install("moody", MOODY.format(more=HOOKS[place]))
        return lambda: next(module for name, module in sys.modules.items() if name.startswith("acme_moody"))

    return install


def config_for(place: str) -> dict[str, Any]:
    return CONFIG if place == "the validation of its options" else {}


@pytest.mark.parametrize("place", HOOKS)
def test_a_plugin_that_fails_for_one_agent_is_asked_again_for_the_next(moody: Any, place: str) -> None:
    module = moody(place)
    kernel = Kernel(config=config_for(place))
    module().failing = True
    with pytest.warns(PluginWarning, match=r"plugin moody 1\.0 \(acme-moody\) failed.*left out of an agent.*not today"):
        assert tools_of(kernel) == []
    assert kernel.plugins["moody"].status == "active"
    assert kernel.active == ("moody",)
    module().failing = False
    assert tools_of(kernel) == ["moody"]


@pytest.mark.parametrize("place", HOOKS)
def test_one_that_fails_for_an_agent_that_named_it_raises_and_stays_active(moody: Any, place: str) -> None:
    module = moody(place)
    kernel = Kernel(config=config_for(place))
    module().failing = True
    with pytest.raises(PluginError, match="not today") as caught:
        kernel.create_agent(scripted(), moody=True)
    assert caught.value.plugin == "moody"
    module().failing = False
    assert tools_of(kernel, moody=True) == ["moody"]


def test_options_of_a_plugin_that_fails_are_not_called_unknown(moody: Any) -> None:
    module = moody("deep_options")
    kernel = Kernel(config=CONFIG)
    module().failing = True
    with pytest.warns(PluginWarning, match="not today"):
        assert tools_of(kernel) == []


def test_a_plugin_that_an_agent_leaves_out_cannot_fail_for_it(moody: Any) -> None:
    module = moody("deep_options")
    kernel = Kernel(require=["rain"], plugins=[plugin("rain", toolsets=[Tools("rain").toolset])])
    module().failing = True
    assert tools_of(kernel, plugins=[Without("moody")]) == ["rain"]
    assert kernel.incidents == ()


def test_what_failed_is_in_the_explanation_of_that_agent_alone(moody: Any) -> None:
    module = moody("a contribution hook")
    kernel = Kernel()
    good = kernel.create_agent(scripted())
    module().failing = True
    with pytest.warns(PluginWarning):
        bad = kernel.create_agent(scripted())
    assert kernel.explain(good).left_out == ()
    (left_out,) = kernel.explain(bad).left_out
    assert (left_out["plugin"], left_out["status"]) == ("moody", "failed")
    assert left_out["reason"].startswith("hook deep_prompt_sections: RuntimeError: not today at ")
    assert "plugins.disable = ['moody']" in left_out["reason"]


def test_failures_of_two_kinds_are_both_said(moody: Any) -> None:
    module = moody("a contribution hook")
    kernel = Kernel()
    for error in (RuntimeError("a"), RuntimeError("b"), ValueError("c")):

        def fail(value: Any, error: Exception = error) -> Any:
            raise error

        module().moody = fail
        with pytest.warns(PluginWarning) if str(error) != "b" else contextlib.nullcontext():
            assert tools_of(kernel) == []
    assert [incident.error for incident in kernel.incidents] == ["RuntimeError: a", "ValueError: c"]


# -- owned hooks -------------------------------------------------------------------------------------------------------

CAREFUL = TRAVEL.replace(
    """    found =""",
    """    try:
        context.collect("deep_cities")
    except Exception:
        return []
    found =""",
)
CONTRIBUTOR = """
from deep_core import hookimpl

@hookimpl(of="travel")
def deep_cities(context):
    return [{city}]
"""


class Norway:
    """A contributor given by hand."""

    @hookimpl(of="travel")
    def deep_cities(self, context: Any) -> list[str]:
        return [str(1 / 0)]


def prompt_of(kernel: Kernel) -> str:
    """The prompt of a new agent."""
    model = scripted()
    run(kernel.create_agent(model), deps=create_default_deps(kernel=kernel))
    return model.player.views[0].system


def test_a_contributor_that_fails_is_left_out_and_the_owner_of_the_hook_stays(site: Site) -> None:
    site.install("travel", TRAVEL)
    site.install("norway", CONTRIBUTOR.format(city="1 / 0"))
    site.install("italy", CONTRIBUTOR.format(city="'Rome'"))
    kernel = Kernel()
    with pytest.warns(PluginWarning) as warned:
        assert "Cities: italy Rome" in prompt_of(kernel)
    (warning,) = warned
    assert "plugin norway 1.0 (acme-norway) failed" in str(warning.message)
    assert "hook deep_cities: ZeroDivisionError" in str(warning.message)
    assert "pip install -U acme-norway" in str(warning.message)
    assert [incident.plugin for incident in kernel.incidents] == ["norway"]


@pytest.mark.parametrize("owner", [TRAVEL, CAREFUL], ids=["the owner lets it through", "the owner catches it"])
@pytest.mark.parametrize("by_hand", [False, True], ids=["required", "by hand"])
def test_a_contributor_that_must_work_raises_in_its_own_name(site: Site, owner: str, by_hand: bool) -> None:
    site.install("travel", owner)
    site.install("norway", CONTRIBUTOR.format(city="1 / 0"))
    kernel = Kernel(plugins=[Norway()], disable=["acme-norway"]) if by_hand else Kernel(require=["norway"])
    label = "norway (given by hand)" if by_hand else "norway 1.0 (acme-norway)"
    with pytest.raises(PluginError) as caught:
        kernel.create_agent(scripted())
    assert caught.value.plugin == "norway"
    assert str(caught.value).startswith(f"plugin {label} failed: hook deep_cities: ZeroDivisionError")
    assert "travel" not in str(caught.value)


# -- many at once ------------------------------------------------------------------------------------------------------


TINT = """
from deep_core import PluginOptions, PromptSection, StateSlot, hookimpl

class TintOptions(PluginOptions):
    word: str = ""

SEEN = StateSlot("seen", list[str], list)

@hookimpl
def deep_options():
    return TintOptions

@hookimpl
def deep_state():
    return [SEEN]

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset, RunContext

    word = context.options(TintOptions).word
    toolset = FunctionToolset(id="tint")

    @toolset.tool
    def tint(ctx: RunContext) -> str:
        "Tint it."
        ctx.deps.state[SEEN].append(word)
        return f"tinted {word}"

    return [toolset]

@hookimpl
def deep_prompt_sections(context):
    word = context.options(TintOptions).word
    if context.config.identity.name.endswith("fails"):
        raise RuntimeError(f"{word} fails for {context.config.identity.name}")
    return [PromptSection.static("tint", f"Say {word}.")]
"""
WORDS = ("red", "green", "blue")


async def conversation(kernel: Kernel, word: str, number: int) -> None:
    """One agent of `kernel`, one run of it; every third agent is one that a plugin fails for."""
    fails = number % 3 == 0
    config = AgentConfig.model_validate({"identity": {"name": f"a{number}-{'fails' if fails else 'works'}"}})
    model = scripted(Call("paint", {}), Call("tint", {}))
    deps = create_default_deps(kernel=kernel)
    result = await kernel.create_agent(model, config=config).run("go", deps=deps)
    (view, *_) = model.player.views
    assert sorted(view.tools) == (["paint"] if fails else ["paint", "tint"])
    assert (f"Say {word}." in view.system) is not fails
    assert next(str(part.content) for part in returns(result.all_messages())) == f"painted {word}"
    assert deps.state["seen"] == ([] if fails else [word])
    told = view.system + str(result.all_messages())
    assert not [other for other in WORDS if other != word and other in told]


def kernels_of_words() -> list[tuple[Kernel, str]]:
    """Three kernels: the installed plugin with options of its own, and a plugin of its own given by hand."""

    def painter(word: str) -> object:
        toolset = FunctionToolset[Any](id="paint")
        toolset.add_function(lambda: f"painted {word}", name="paint", description="Paint it.")
        return plugin(f"painter_{word}", toolsets=[toolset])

    return [
        (Kernel(plugins=[painter(word)], config={"plugins": {"tint": {"options": {"word": word}}}}), word)
        for word in WORDS
    ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::deep_core.PluginWarning")
@pytest.mark.parametrize("how", ["in one loop", "in threads"])
def test_three_kernels_and_forty_agents_stay_apart_when_plugins_fail_in_some(site: Site, how: str) -> None:
    site.install("tint", TINT)
    kernels = kernels_of_words()
    work = [(*kernels[number % 3], number // 3) for number in range(40)]

    async def all_at_once() -> None:
        await asyncio.gather(*(conversation(*one) for one in work))

    if how == "in one loop":
        asyncio.run(all_at_once())
    else:
        with ThreadPoolExecutor(8) as pool:
            for future in [pool.submit(lambda one=one: asyncio.run(conversation(*one))) for one in work]:
                future.result()
    for kernel, word in kernels:
        assert kernel.active == (f"painter_{word}", "tint")
        (incident,) = kernel.incidents  # said once, however many agents it failed for
        assert (incident.plugin, incident.error.split()[1]) == ("tint", word)
        asyncio.run(conversation(kernel, word, 1))
