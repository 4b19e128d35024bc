"""What `explain` shows of hooks that plugins own."""

from __future__ import annotations

import json
from typing import Any

import deep_skills
import pytest

from deep_core import Kernel, PluginWarning, PromptSection, hookspec
from tests.plugins.test_config import Project, project
from tests.plugins.test_registry_owned_hooks import kernel_of, norway, travel
from tests.plugins_by_hand import TRAVEL, Site, Tools, plugin, scripted, site

__all__ = ["project", "site"]


def test_explain_shows_what_plugins_contribute_to_plugins() -> None:
    place = PromptSection.static("fjord", "Deep water.")
    items = ["Oslo", place, 7]
    with kernel_of(travel(hookspec(policy="collect")), norway(items)) as kernel:
        found = kernel.explain()
    shared = {"hook": "deep_cities", "owner": "travel", "plugin": "norway"}
    assert list(found.contributions) == [{**shared, "item": item} for item in ("Oslo", "fjord", "int")]
    assert json.loads(json.dumps(found.to_json()))["contributions"] == list(found.contributions)


def test_explain_names_the_items_of_a_mapping_by_their_keys() -> None:
    owner = travel(hookspec(policy="collect", mapping=True))
    with kernel_of(owner, norway({"Oslo": PromptSection.static("x", "y"), "Bergen": 1})) as kernel:
        assert [item["item"] for item in kernel.explain().contributions] == ["Oslo", "Bergen"]


def test_explain_shows_no_contribution_of_a_plugin_that_was_left_out(site: Site) -> None:
    site.install("travel", TRAVEL)
    site.install("norway", CONTRIBUTOR)
    kernel = Kernel()
    with pytest.warns(PluginWarning, match="norway .* was left out"):
        found = kernel.explain()
    assert found.contributions == ()
    assert [item["plugin"] for item in found.left_out] == ["norway"]


def test_explain_says_that_a_call_which_no_person_can_approve_is_denied(project: Project) -> None:
    project.file("[agent.interrupt_on]\nforecast = true")
    kernel = project.kernel()
    agent = kernel.create_agent(scripted(), interrupt_on=False)
    shown = {tool.name: tool.approval for tool in kernel.explain(agent).tools}
    assert shown == {"forecast": "denied", "launch": "never", "report": "never"}


def test_a_printed_explanation_is_a_table_whose_numbers_add_up() -> None:
    house = plugin("house", sections=[PromptSection.static("motto", "Be brief.")])
    config = {"agent": {"interrupt_on": {"put": True}}, "plugins": {"late": {"defer": True}}}
    box = plugin("box", toolsets=[Tools("peek", "put").toolset])
    late = plugin("late", toolsets=[Tools("found").toolset])
    with Kernel(plugins=[house, box, late], discover=False, config=config) as kernel:
        found = kernel.explain()
    rows = {line.split()[1]: line.split() for line in str(found).splitlines()}
    cost = {name: int(row[3]) for name, row in rows.items() if row[0] != "total"}
    assert rows["motto"] == ["section", "motto", "house", "3"]
    assert rows["put"] == ["tool", "put", "box", str(cost["put"]), "always"]
    assert rows["found"][4:] == ["never,", "on", "demand"]
    assert str(found).splitlines()[-1].split() == ["total", str(found.tokens), "a", "request,", "estimated"]
    assert found.tokens == sum(found.by_plugin().values()) == sum(cost.values()) - cost["found"]


def test_explain_shows_skill_loaders() -> None:
    class Folder:
        source = "package"

        async def list(self, ctx: Any) -> list[Any]:
            return []

        async def read(self, ctx: Any, name: str) -> str:
            return name

        async def resource(self, ctx: Any, name: str, path: str) -> bytes:
            return b""

    with Kernel(plugins=[deep_skills, plugin("tips", skill_loaders=[Folder()])], discover=False) as kernel:
        found = kernel.explain().contributions
    about = {"hook": "deep_skill_loaders", "owner": "deep_core", "plugin": "tips", "item": "Folder"}
    assert about in found


CONTRIBUTOR = """
from deep_core import hookimpl

@hookimpl(of="travel")
def deep_cities(context):
    return ["Oslo"]

@hookimpl
def deep_prompt_sections(context):
    return 1 / 0
"""
