"""The order of plugins in a hook: what the application says, then authors, then names; never how they were found."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deep_core import Kernel, PluginError, PluginWarning, Processor, PromptSection, hookimpl, hookspec
from deep_core.plugins.registry import Registry

HOOK = "deep_prompt_sections"
NAMES = ["ant", "bee", "cat", "dog", "eel", "fox"]


def plugin(**marks: Any) -> Any:
    """An object that implements one hook, marked so."""

    def deep_prompt_sections(context: object) -> list[PromptSection]:
        return []

    return SimpleNamespace(deep_prompt_sections=hookimpl(**marks)(deep_prompt_sections))


def ordered(
    plugins: Iterable[tuple[str, Mapping[str, Any]]], order: Callable[[str], int] = lambda name: 0
) -> list[str]:
    """The plugins' names in the order in which they would be called."""
    registry = Registry()
    for name, marks in plugins:
        registry.register(name, plugin(**marks))
    return [impl.plugin_name for impl in registry.implementations(HOOK, order)]


# -- properties --------------------------------------------------------------------------------------------------------


@st.composite
def herds(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    """Plugins with wishes that can all be granted: a hidden order exists that satisfies every before and after."""
    hidden = draw(st.permutations(NAMES))
    herd: dict[str, dict[str, Any]] = {}
    for index, name in enumerate(hidden):
        herd[name] = {
            "tryfirst": draw(st.booleans()),
            "trylast": draw(st.booleans()),
            "before": draw(st.lists(st.sampled_from([*hidden[index + 1 :], "absent"]), max_size=3)),
            "after": draw(st.lists(st.sampled_from([*hidden[:index], "absent"]), max_size=3)),
        }
    return herd


orders = st.fixed_dictionaries({name: st.integers(-2, 2) for name in NAMES})


@given(herd=herds(), order=orders, data=st.data())
def test_the_order_of_registration_changes_nothing(
    herd: dict[str, dict[str, Any]], order: dict[str, int], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(list(herd.items())))
    assert ordered(herd.items(), order.__getitem__) == ordered(shuffled, order.__getitem__)


@given(herd=herds(), order=orders)
def test_no_plugin_is_lost_and_the_applications_order_stands_above_everything(
    herd: dict[str, dict[str, Any]], order: dict[str, int]
) -> None:
    result = ordered(herd.items(), order.__getitem__)
    assert sorted(result) == NAMES
    assert [order[name] for name in result] == sorted(order.values())


@given(herd=herds(), order=orders)
def test_authors_wishes_hold_among_plugins_of_one_order(herd: dict[str, dict[str, Any]], order: dict[str, int]) -> None:
    result = ordered(herd.items(), order.__getitem__)
    for name, said in herd.items():
        for other in said["before"]:
            assert other == "absent" or order[other] != order[name] or result.index(name) < result.index(other)
        for other in said["after"]:
            assert other == "absent" or order[other] != order[name] or result.index(other) < result.index(name)


@given(tries=st.fixed_dictionaries({name: st.sampled_from(["tryfirst", "", "trylast"]) for name in NAMES}))
def test_without_wishes_tryfirst_then_name_then_trylast(tries: dict[str, str]) -> None:
    rank = {"tryfirst": 0, "": 1, "trylast": 2}
    herd = {name: {said: True} if said else {} for name, said in tries.items()}
    assert ordered(herd.items()) == sorted(NAMES, key=lambda name: (rank[tries[name]], name))


@given(herd=herds())
def test_names_decide_between_neighbours_that_nothing_else_separates(herd: dict[str, dict[str, Any]]) -> None:
    """Two neighbours stand against the order of (tryfirst/trylast, name) only where a wish says so."""
    rank = {name: (0 if said["tryfirst"] else 2 if said["trylast"] else 1, name) for name, said in herd.items()}
    for first, second in pairwise(ordered(herd.items())):
        wished = second in herd[first]["before"] or first in herd[second]["after"]
        assert wished or rank[first] < rank[second]


# -- cycles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "herd",
    [
        {"ant": {"before": ["bee"]}, "bee": {"before": ["ant"]}},
        {"ant": {"after": ["bee"]}, "bee": {"after": ["ant"]}},
        {"ant": {"before": ["bee"]}, "bee": {"before": ["cat"]}, "cat": {"before": ["ant"]}, "dog": {}},
        {"ant": {"before": ["ant"]}},
        # `eel` follows the cycle without being in it: it is not printed.
        {"ant": {"before": ["bee", "eel"]}, "bee": {"before": ["ant"]}, "eel": {}},
    ],
)
def test_a_cycle_is_an_error_that_prints_it(herd: dict[str, dict[str, Any]]) -> None:
    with pytest.raises(PluginError, match=f"hook {HOOK}: .*cycle: ") as caught:
        ordered(herd.items())
    cycle = re.findall(r"\w+", str(caught.value).rpartition(": ")[2])
    assert len(cycle) > 1
    assert cycle[0] == cycle[-1]
    for first, second in pairwise(cycle):
        assert second in herd[first].get("before", ()) or first in herd[second].get("after", ())


def test_the_applications_order_opens_a_cycle() -> None:
    herd: dict[str, dict[str, Any]] = {"ant": {"before": ["bee"]}, "bee": {"before": ["ant"]}}
    assert ordered(herd.items(), {"ant": 1, "bee": 0}.__getitem__) == ["bee", "ant"]


# -- through the kernel ------------------------------------------------------------------------------------------------


def noop(messages: list[Any]) -> list[Any]:
    return messages


class Ant:
    @hookimpl
    def deep_prompt_sections(self, context: object) -> list[PromptSection]:
        return [PromptSection.static("ant", "Ants.")]

    @hookimpl
    def deep_history_processors(self, context: object) -> list[Processor]:
        return [Processor("ant", noop)]


class Bee:
    @hookimpl
    def deep_prompt_sections(self, context: object) -> list[PromptSection]:
        return [PromptSection.static("bee", "Bees.")]

    @hookimpl
    def deep_history_processors(self, context: object) -> list[Processor]:
        return [Processor("bee", noop)]


class Cat:
    @hookimpl
    def deep_prompt_sections(self, context: object) -> list[PromptSection]:
        return [PromptSection.static("cat", "Cats."), PromptSection.static("kitten", "Kittens.", order=1)]


def explained(config: Mapping[str, Any] | None = None) -> tuple[list[str], list[str]]:
    """Names of the sections and of the processors, in the order of the agent."""
    with Kernel(plugins=[Cat, Bee, Ant], discover=False, config=config) as kernel:
        explanation = kernel.explain()
        return [s.name for s in explanation.sections], [p["name"] for p in explanation.history_processors]


def test_by_default_names_order_the_agent() -> None:
    assert explained() == (["kitten", "ant", "bee", "cat"], ["ant", "bee"])


def test_the_applications_order_for_all_hooks_of_a_plugin() -> None:
    config = {"plugins": {"ant": {"order": 10}, "cat": {"order": -1}}}
    assert explained(config) == (["kitten", "cat", "bee", "ant"], ["bee", "ant"])


def test_the_applications_order_for_one_hook() -> None:
    config = {"plugins": {"ant": {"order": {"history_processors": 10}}}}
    assert explained(config) == (["kitten", "ant", "bee", "cat"], ["bee", "ant"])


def test_a_cycle_stops_the_agent_and_names_the_plugins() -> None:
    class First:
        @hookimpl(after=["second"])
        def deep_prompt_sections(self, context: object) -> list[PromptSection]:
            return []

    class Second:
        @hookimpl(after=["first"])
        def deep_prompt_sections(self, context: object) -> list[PromptSection]:
            return []

    circle = r"first -> second -> first|second -> first -> second"
    with Kernel(plugins=[First, Second], discover=False) as kernel, pytest.raises(PluginError, match=circle):
        kernel.create_agent("test")


def test_two_implementations_of_one_hook_in_one_plugin_are_both_called() -> None:
    class Twice:
        @hookimpl
        def deep_prompt_sections(self, context: object) -> list[PromptSection]:
            return [PromptSection.static("one", "One.")]

        @hookimpl(specname="deep_prompt_sections")
        def more(self, context: object) -> list[PromptSection]:
            return [PromptSection.static("two", "Two.")]

    with Kernel(plugins=[Twice], discover=False) as kernel:
        assert sorted(s.name for s in kernel.explain().sections) == ["one", "two"]


def test_closing_runs_what_plugins_registered_the_last_first_and_continues_after_one_that_raises() -> None:
    closed: list[str] = []

    class Closer:
        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[PromptSection]:
            def fail() -> None:
                closed.append("second")
                raise RuntimeError("no")

            context.on_close(lambda: closed.append("first"))
            context.on_close(fail)
            context.on_close(lambda: closed.append("third"))
            return []

    kernel = Kernel(plugins=[Closer], discover=False)
    kernel.create_agent("test")
    kernel.close()
    kernel.close()
    assert closed == ["third", "second", "first"]
    assert [incident.where for incident in kernel.incidents] == ["on_close"]
    with pytest.raises(PluginError, match="closed"):
        kernel.create_agent("test")


# -- hooks of plugins, and deprecation ---------------------------------------------------------------------------------


def hooks_module(**specs: Callable[..., Any]) -> ModuleType:
    """A module that declares hooks."""
    module = ModuleType("acme_hooks")
    for name, function in specs.items():
        setattr(module, name, function)
    return module


def owner(*modules: Any) -> Any:
    """The plugin `owner`, which declares hooks and collects them into sections."""

    class Owner:
        @hookimpl
        def deep_hookspecs(self) -> Sequence[Any]:
            return modules

        @hookimpl
        def deep_prompt_sections(self, context: Any) -> list[PromptSection]:
            found = context.collect("deep_cities")
            return [PromptSection.static("cities", ", ".join(f"{c.value} by {c.plugin}" for c in found))]

    return Owner


def deep_cities(context: object) -> None:
    """Cities."""


class Paris:
    @hookimpl(of="owner")
    def deep_cities(self, context: object) -> list[str]:
        return ["Paris"]

    @hookimpl
    def deep_prompt_sections(self, context: object) -> list[PromptSection]:
        return [PromptSection.static("paris", "Paris is a city.")]


def test_a_plugins_own_hook_is_collected_with_who_contributed() -> None:
    module = hooks_module(deep_cities=hookspec(policy="collect")(deep_cities))
    with Kernel(plugins=[Paris, owner(module)], discover=False) as kernel:
        assert kernel.plugins["paris"].hooks == ("deep_cities", "deep_prompt_sections")
        assert kernel.explain().prompt.splitlines()[0] == "Paris by paris"


def test_a_hook_of_an_absent_owner_sleeps_and_the_rest_works() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", PluginWarning)
        with Kernel(plugins=[Paris], discover=False) as kernel:
            assert kernel.plugins["paris"].hooks == ("deep_prompt_sections",)
            assert [s.name for s in kernel.explain().sections] == ["paris"]


def test_a_misspelt_hook_of_a_present_owner_is_an_error_with_a_suggestion() -> None:
    class Paris:
        @hookimpl(of="owner")
        def deep_citys(self, context: object) -> list[str]:
            return []

    module = hooks_module(deep_cities=hookspec(policy="collect")(deep_cities))
    with pytest.raises(PluginError, match=r"deep_citys .*no such hook of plugin owner.* Did you mean 'deep_cities'"):
        Kernel(plugins=[Paris, owner(module)], discover=False)


def test_a_hook_that_is_declared_already_is_an_error() -> None:
    module = hooks_module(deep_toolsets=hookspec(policy="collect")(deep_cities))
    with pytest.raises(PluginError, match="plugin owner declares hook deep_toolsets, which deep_core owns"):
        Kernel(plugins=[owner(module)], discover=False)


def test_a_retired_hook_warns_and_names_the_plugin() -> None:
    retired = hookspec(policy="collect", warn_on_impl=DeprecationWarning("deep_cities is retired: use deep_places"))
    module = hooks_module(deep_cities=retired(deep_cities))
    with pytest.warns(DeprecationWarning, match=r"deep_cities is retired: use deep_places.* \(plugin paris"):
        Kernel(plugins=[Paris, owner(module)], discover=False)


def test_a_retired_argument_warns_and_names_the_plugin() -> None:
    retired = hookspec(policy="collect", warn_on_impl_args={"context": DeprecationWarning("context is retired")})
    module = hooks_module(deep_cities=retired(deep_cities))
    with pytest.warns(DeprecationWarning, match=r"context is retired.* \(plugin paris"):
        Kernel(plugins=[Paris, owner(module)], discover=False)
