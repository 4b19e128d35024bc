"""Owned hooks: a hook that one plugin declares and collects, and others implement with `of=`."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any, Protocol

import pytest

from deep_core import Kernel, PluginError, PromptSection, hookimpl, hookspec

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


@pytest.mark.anyio
async def test_an_owner_calls_a_hook_that_notifies_itself_with_any_arguments() -> None:
    def deep_trip_ended(city: str, context: object) -> None:
        """Notification: a trip has ended."""

    module, told = ModuleType("travel_hooks"), list[str]()
    vars(module)["deep_trip_ended"] = hookspec(policy="notify")(deep_trip_ended)

    class Travel:
        @hookimpl
        def deep_hookspecs(self) -> list[ModuleType]:
            return [module]

    class Norway:
        @hookimpl(of="travel")
        async def deep_trip_ended(self, context: Any, city: str) -> None:
            told.append(f"{context.plugin}: {city}")

    kernel = kernel_of(Travel(), Norway())
    arguments = lambda plugin: {"city": "Oslo", "context": kernel.context(plugin)}  # noqa: E731
    await kernel.caller.notify("deep_trip_ended", arguments, among=kernel.active)
    assert told == ["norway: Oslo"]


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


def test_a_hook_that_its_owner_cannot_call_is_refused() -> None:
    with pytest.raises(
        PluginError, match=r"declares hook deep_cities, with policy='deny'; .* is collect, one, first, notify"
    ):
        kernel_of(travel(hookspec(policy="deny")))


def test_an_owner_can_ask_for_the_first_answer_with_arguments_of_its_own() -> None:
    def deep_cities(country: str) -> None:
        """A city of a country."""

    class Contributor:
        @hookimpl(of="travel")
        def deep_cities(self, country: str) -> str | None:
            return {"Norway": "Oslo"}.get(country)

    kernel = kernel_of(travel(hookspec(policy="first", item="builtins:str"), deep_cities), Contributor())
    assert kernel.caller.first("deep_cities", {"country": "Norway"}, among=kernel.active) == "Oslo"
    assert kernel.caller.first("deep_cities", {"country": "Atlantis"}, among=kernel.active) is None


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
