"""Owned hooks: a hook that one plugin declares and collects, and others implement with `of=`."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import pytest

from deep_core import Kernel, PluginError, PluginWarning, PromptSection, hookimpl, hookspec
from tests.plugins_by_hand import Site, site

__all__ = ["site"]

Declare = Callable[[Callable[..., Any]], Callable[..., Any]]


def travel(declare: Declare, spec: Callable[..., Any] | None = None) -> Any:
    """The plugin `travel`: it declares `deep_cities` so, and shows what it collects in its section."""

    def deep_cities(context: object) -> None:
        """Cities to forecast for."""

    module = ModuleType("travel_hooks")
    vars(module)["deep_cities"] = declare(spec or deep_cities)

    class Travel:
        @hookimpl
        def deep_hookspecs(self) -> list[ModuleType]:
            return [module]

        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[PromptSection]:
            found = [(item.plugin, item.value) for item in context.collect("deep_cities")]
            assert found == [(item.plugin, item.value) for item in context.collect("deep_cities")]
            return [PromptSection.static("cities", f"Cities: {found}")]

    return Travel()


def norway(cities: Any, of: str = "travel") -> Any:
    """The plugin `norway`, which contributes `cities`."""

    class Norway:
        called = 0

        @hookimpl(of=of)
        def deep_cities(self, context: Any) -> Any:
            self.called += 1
            return cities

    return Norway()


def kernel_of(*plugins: object) -> Kernel:
    return Kernel(plugins=plugins, discover=False)


# -- what an owner declares --------------------------------------------------------------------------------------------


def test_an_owner_may_declare_that_its_hook_returns_a_mapping() -> None:
    owner = travel(hookspec(policy="collect", item="builtins:int", mapping=True))
    assert "[('norway', ('Oslo', 4))]" in kernel_of(owner, norway({"Oslo": 4})).explain().prompt
    with pytest.raises(PluginError, match=r"plugin norway .* failed: hook deep_cities: expected a mapping of names"):
        kernel_of(owner, norway(["Oslo"])).explain()


def test_without_that_a_mapping_is_refused() -> None:
    owner = travel(hookspec(policy="collect"))
    with pytest.raises(PluginError, match=r"plugin norway .* failed: hook deep_cities: expected a list, got dict"):
        kernel_of(owner, norway({"Oslo": 4})).explain()


@pytest.mark.parametrize(("mapping", "cities"), [(False, ["Oslo", 7]), (True, {"Oslo": "here", "Bergen": 7})])
def test_a_contribution_of_a_wrong_type_fails_the_contributor(mapping: bool, cities: Any) -> None:
    owner = travel(hookspec(policy="collect", item="builtins:str", mapping=mapping))
    with pytest.raises(PluginError, match="failed: hook deep_cities: expected strs, got int") as caught:
        kernel_of(owner, norway(cities)).explain()
    assert caught.value.plugin == "norway"


class Closed(Protocol):
    """A protocol that isinstance refuses."""


@pytest.mark.parametrize("item", ["builtins", "nowhere:City", "builtins:City", "builtins:len", f"{__name__}:Closed"])
def test_a_hook_whose_item_is_not_a_class_fails_its_owner(item: str) -> None:
    owner = travel(hookspec(policy="collect", item=item))
    with pytest.raises(PluginError, match=rf"hook deep_cities declares item='{item}', which is not a class") as caught:
        kernel_of(owner, norway(["Oslo"])).explain()
    assert caught.value.plugin == "travel"


@pytest.mark.parametrize("policy", ["first", "notify", "deny"])
def test_a_hook_that_collect_cannot_call_is_refused(policy: Any) -> None:
    with pytest.raises(PluginError, match=rf"declares hook deep_cities, with policy='{policy}'; .* collect or one"):
        kernel_of(travel(hookspec(policy=policy)))


def test_a_hook_with_an_argument_besides_context_is_refused() -> None:
    def deep_cities(context: object, country: str) -> None:
        """Cities of a country."""

    with pytest.raises(PluginError, match=r"declares hook deep_cities, with the argument 'country'; .* only context"):
        kernel_of(travel(hookspec(policy="collect"), deep_cities))


# -- whose hook it is --------------------------------------------------------------------------------------------------


def test_a_hook_of_another_owner_than_the_implementation_says_is_an_error() -> None:
    owner = travel(hookspec(policy="collect"))
    kernel_of(owner, norway(["Oslo"]))

    class Other:
        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[PromptSection]:
            return []

    for of in ("other", "norway"):
        with pytest.raises(PluginError, match=rf'hook deep_cities .*of=\'{of}\' does not own .*write of="travel"'):
            kernel_of(owner, Other(), norway(["Oslo"], of))


def test_a_plugin_that_implements_only_an_absent_plugins_hook_is_active() -> None:
    with kernel_of(norway(["Oslo"])) as kernel:
        assert kernel.active == ("norway",)
        assert kernel.plugins["norway"].hooks == ()
        assert kernel.plugins["norway"].asleep == (("deep_cities", "travel"),)


# -- what an agent has of it -------------------------------------------------------------------------------------------


def test_an_owned_hook_is_called_once_for_every_agent() -> None:
    contributor = norway(["Oslo"])
    with kernel_of(travel(hookspec(policy="collect")), contributor) as kernel:
        for agents in (1, 2):
            kernel.create_agent("test")
            assert contributor.called == agents


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
    site.install("travel", OWNER)
    site.install("norway", CONTRIBUTOR)
    kernel = Kernel()
    with pytest.warns(PluginWarning, match="norway .* was left out"):
        found = kernel.explain()
    assert found.contributions == ()
    assert [item["plugin"] for item in found.left_out] == ["norway"]


OWNER = """
import sys
from deep_core import PromptSection, hookimpl, hookspec

@hookspec(policy="collect")
def deep_cities(context):
    "Cities to forecast for."

@hookimpl
def deep_hookspecs():
    return [sys.modules[__name__]]

@hookimpl(tryfirst=True)
def deep_prompt_sections(context):
    found = [item.value for item in context.collect("deep_cities")]
    return [PromptSection.static("cities", "Cities: " + ", ".join(found))]
"""
CONTRIBUTOR = """
from deep_core import hookimpl

@hookimpl(of="travel")
def deep_cities(context):
    return ["Oslo"]

@hookimpl
def deep_prompt_sections(context):
    return 1 / 0
"""
