"""Containment: what a plugin does wrong stays that plugin's: dropped whole, passed over, logged, or denied."""

from __future__ import annotations

import contextlib
import logging
import warnings
from typing import Any

import pytest
from pydantic_ai import FunctionToolset
from pydantic_ai.models.test import TestModel

from deep_core import Kernel, PluginError, PluginWarning
from tests.plugins_by_hand import Site, agent_of, kernel_of, outcomes, plugin, run, scripted, site
from tests.stubs import Call

__all__ = ["site"]


WHOLE = """
from deep_core import Processor, PromptSection, StateSlot, hookimpl

@hookimpl
def deep_state():
    return [StateSlot("sun_slot", int, int)]

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset
    toolset = FunctionToolset(id="sun")
    toolset.add_function(lambda: "sunny", name="sun", description="Sun.")
    {toolsets}
    return [toolset]

@hookimpl
def deep_prompt_sections(context):
    {sections}
    return [PromptSection.static("sun_text", "SUN SHINES"), PromptSection.live("sun_live", lambda ctx: "SUN LIVES")]

@hookimpl
def deep_history_processors(context):
    {processors}
    return [Processor("sun", lambda messages: messages)]

@hookimpl
def deep_capabilities(context):
    from pydantic_ai.capabilities import Capability
    {capabilities}
    return [Capability(id="sun_cap", instructions="SUN CAPABILITY")]

@hookimpl
def deep_backends(context):
    {backends}
    return {{"sunny": lambda context: None}}

@hookimpl
def deep_skill_loaders(context):
    {skill_loaders}
    return []

@hookimpl
def deep_run_event(event, context):
    open({heard!r}, "a").write("heard ")

@hookimpl
def deep_check_call(call, context):
    open({heard!r}, "a").write("checked ")

@hookimpl
def deep_agent_created(agent, context):
    open({heard!r}, "a").write("created ")
"""


RAIN = """
from deep_core import hookimpl

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset
    toolset = FunctionToolset(id="rain")
    toolset.add_function(lambda: "wet", name="rain", description="Rain.")
    return [toolset]
"""


PLACES = ("toolsets", "sections", "processors", "capabilities", "backends", "skill_loaders")


CRASHES = ("raise RuntimeError('boom')", "raise SystemExit(3)", "return 3", "return 'text'", "return [3]", "return 1/0")


def sun(site: Site, **crash: str) -> str:
    heard = str(site.path / "heard")
    return WHOLE.format(**{**dict.fromkeys(PLACES, "pass"), **crash}, heard=heard)


@contextlib.contextmanager
def warned() -> Any:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield caught


# -- collect: all of it, never half ----------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("crash", CRASHES)
def test_a_plugin_that_fails_to_contribute_is_dropped_whole(site: Site, place: str, crash: str) -> None:
    if (place, crash) == ("backends", "return [3]"):
        crash = "return {'sunny': 3}"
    site.install("sun", sun(site, **{place: crash}))
    site.install("rain", RAIN)
    model = scripted(Call("rain", {}))
    with warned() as caught:
        kernel = Kernel()
        result = run(kernel.create_agent(model))
    view = model.player.views[0]
    assert list(view.tools) == ["rain"]
    assert "SUN" not in view.system + str(view.messages)
    assert outcomes(result) == [("rain", "success")]
    assert not (site.path / "heard").exists()
    (warning,) = [w for w in caught if issubclass(w.category, PluginWarning)]
    assert "sun 1.0 (acme-sun)" in str(warning.message)
    assert [incident.plugin for incident in kernel.incidents] == ["sun"]


def test_its_error_is_kept_with_traceback_and_note(site: Site) -> None:
    site.install("sun", sun(site, sections="raise RuntimeError('boom')"))
    with warned():
        kernel = Kernel()
        kernel.create_agent(scripted())
    (incident,) = kernel.incidents
    assert incident.error == "RuntimeError: boom"
    assert "plugin sun 1.0 (acme-sun), hook deep_prompt_sections" in incident.traceback


def test_a_failure_that_repeats_is_said_once(site: Site) -> None:
    site.install("sun", sun(site, capabilities="raise RuntimeError('boom')"))
    site.install("rain", RAIN)
    with warned() as caught:
        kernel = Kernel()
        for _ in range(3):
            model = scripted()
            run(kernel.create_agent(model))
            assert list(model.player.views[0].tools) == ["rain"]
    assert len([w for w in caught if issubclass(w.category, PluginWarning)]) == 1
    assert len(kernel.incidents) == 1


@pytest.mark.parametrize(
    "how",
    [{"sun": True}, {"sun": {}}, {"config": {"plugins": {"require": ["sun"]}}}, {"strict": True}],
)
def test_one_that_was_named_raises(site: Site, how: dict[str, Any]) -> None:
    site.install("sun", sun(site, sections="raise RuntimeError('boom')"))
    if "config" in how:
        kernel, how = Kernel(config=how["config"]), {}
    else:
        kernel = Kernel()
    with warned(), pytest.raises((PluginError, RuntimeError), match="boom"):
        kernel.create_agent(scripted(), **how)


@pytest.mark.parametrize("how", [{"require": ["sun"]}, {"strict": True}, {"require": ["acme-sun"]}])
def test_a_required_one_raises_each_time(site: Site, how: dict[str, Any]) -> None:
    site.install("sun", sun(site, sections="raise RuntimeError('boom')"))
    kernel = Kernel(**how)
    for _ in range(2):
        with pytest.raises((PluginError, RuntimeError), match="boom"):
            kernel.create_agent(scripted())


def test_one_given_by_hand_was_named() -> None:
    with pytest.raises(PluginError, match=r"hand(?s:.*)boom"):
        agent_of(plugin("hand", sections=lambda: exec("raise RuntimeError('boom')")))


def test_a_generator_that_fails_halfway_gives_nothing(site: Site) -> None:
    source = RAIN.replace("rain", "sun").replace("return [toolset]", "yield toolset\n    raise RuntimeError('halfway')")
    site.install("sun", source)
    model = scripted()
    with warned():
        run(Kernel().create_agent(model))
    assert list(model.player.views[0].tools) == []


@pytest.mark.parametrize(
    ("hook", "returned"),
    [
        ("toolsets", [object()]),
        ("toolsets", [FunctionToolset]),
        ("toolsets", {"a": FunctionToolset()}),
        ("sections", ["a text"]),
        ("capabilities", [lambda ctx: None]),
        ("backends", [lambda ctx: None]),
        ("skill_loaders", [object()]),
        ("state", [int]),
    ],
)
def test_a_wrong_type_is_reported_with_the_plugin_and_the_hook(hook: str, returned: Any) -> None:
    names = {"sections": "deep_prompt_sections"}
    with pytest.raises(PluginError, match=rf"plugin wrong.*{names.get(hook, f'deep_{hook}')}.*expected"):
        agent_of(plugin("wrong", **{hook: returned}))


def test_nothing_returned_is_nothing_contributed() -> None:
    hooks = ("toolsets", "sections", "processors", "capabilities", "backends", "skill_loaders", "state")
    agent = agent_of(plugin("empty", **dict.fromkeys(hooks)))
    assert run(agent).output == "done"


# -- first: goes on --------------------------------------------------------------------------------------------------


def test_a_resolver_that_raises_is_passed_over_and_the_first_model_wins() -> None:
    def broken(model_id: str) -> Any:
        raise RuntimeError("no")

    kernel = kernel_of(
        plugin("a_broken", resolve_model=broken),
        plugin("b_none", resolve_model=lambda model_id: None),
        plugin("c_first", resolve_model=lambda model_id: TestModel(custom_output_text=f"c {model_id}")),
        plugin("d_second", resolve_model=lambda model_id: TestModel(custom_output_text="d")),
    )
    agent = kernel.create_agent("acme:x")
    assert run(agent).output == "c acme:x"
    assert run(agent, model="acme:y").output == "c acme:y"
    assert {incident.plugin for incident in kernel.incidents} == {"a_broken"}


def test_what_is_no_model_is_the_resolvers_fault() -> None:
    kernel = kernel_of(
        plugin("a_wrong", resolve_model=lambda model_id: 7),
        plugin("b_right", resolve_model=lambda model_id: TestModel(custom_output_text="right")),
    )
    assert run(kernel.create_agent("acme:x")).output == "right"
    assert [incident.plugin for incident in kernel.incidents] == ["a_wrong"]


# -- tools -----------------------------------------------------------------------------------------------------------


def moody(error: BaseException) -> FunctionToolset[Any]:
    toolset = FunctionToolset[Any](id="moody")

    @toolset.tool_plain
    def act() -> str:
        raise error.with_traceback(None)  # or the one object would collect those of all calls

    return toolset


# -- telling ---------------------------------------------------------------------------------------------------------


def test_each_incident_is_one_line_in_the_log_and_the_last_hundred_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    kernel = kernel_of(plugin("moody", toolsets=[moody(ValueError("boom"))]))
    with caplog.at_level(logging.WARNING, "deep_core"):
        run(kernel.create_agent(scripted(*[[Call("act", {})] * 5] * 30), retries=1000))
    assert len(kernel.incidents) == 100
    lines = [record.getMessage() for record in caplog.records if record.name == "deep_core"]
    assert len(lines) == 150
    assert all("plugin moody" in line and "\n" not in line for line in lines)
