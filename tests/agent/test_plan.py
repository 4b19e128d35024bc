"""The records of one agent: complete when they exist, never changed after that, and without what failed."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import pytest

from deep_core import Kernel, PluginWarning
from deep_core.agent.plan import Plan
from deep_core.agent.policy.gates import leaves_of
from deep_core.agent.run.capability import DeepCapability
from tests.plugins_by_hand import Site, Tools, kernel_of, plugin, site

__all__ = ["site"]


LATE = """
from deep_core import Processor, PromptSection, hookimpl

@hookimpl
def deep_prompt_sections(context):
    return [PromptSection.static("hello", "Hello.")]

@hookimpl
def deep_history_processors(context):
    return [Processor("hide", lambda messages: messages, phase="redact")]

@hookimpl
def deep_toolsets(context):
    from pydantic_ai import FunctionToolset
    toolset = FunctionToolset(id="late")
    toolset.add_function(lambda: "ok", name="wipe", description="Wipe.")
    return [toolset]

@hookimpl
def deep_capabilities(context):
    raise RuntimeError("late")
"""


def plan_of(kernel: Kernel) -> Plan:
    leaves = leaves_of(kernel.create_agent("test").root_capability)
    return next(leaf for leaf in leaves if isinstance(leaf, DeepCapability)).plan


def test_a_plan_and_what_was_contributed_are_frozen() -> None:
    plan = plan_of(kernel_of(plugin("disk", toolsets=[Tools("look").toolset])))
    for record in (plan, plan.contributed):
        with pytest.raises(FrozenInstanceError):
            record.static = ()  # type: ignore[misc, union-attr]


def test_nothing_of_a_plugin_that_failed_late_is_in_the_plan(site: Site) -> None:
    site.install("late", LATE)
    with pytest.warns(PluginWarning, match="late"):
        plan = plan_of(Kernel(plugins=[plugin("disk", toolsets=[Tools("look").toolset])]))
    assert plan.contributed.plugins == ("disk",)
    assert [tool.name for tool in plan.toolbox.offered()] == ["look"]
    assert (list(plan.static), list(plan.processors), plan.guards) == ([], [], set())
    assert [*plan.contributed.dropped] == ["late"]
