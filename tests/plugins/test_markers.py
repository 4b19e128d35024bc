"""The two decorators of a plugin's author: what they mark is what the kernel acts on, and marking imports nothing."""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from deep_core import PluginError, hookimpl, hookspec
from deep_core.plugins.registry import Registry


class Early:
    """Goes first by its mark."""

    @hookimpl(tryfirst=True)
    def deep_prompt_sections(self) -> list[Any]:
        return []


class Plain:
    """Implements a hook under another name, marked without parentheses."""

    @hookimpl
    def deep_prompt_sections(self) -> list[Any]:
        return []


class Renamed:
    """Goes last, and names the hook."""

    @hookimpl(specname="deep_prompt_sections", trylast=True)
    def sections(self) -> list[Any]:
        return []


class Before:
    """Precedes one plugin and follows another."""

    @hookimpl(before=["a_plain"], after=["z_early"])
    def deep_prompt_sections(self) -> list[Any]:
        return []


def order(**plugins: object) -> list[str]:
    registry = Registry()
    for name, obj in plugins.items():
        registry.check(name, obj)
        registry.register(name, obj)
    return [impl.plugin_name for impl in registry.implementations("deep_prompt_sections", lambda name: 0)]


def test_marks_decide_the_order_and_a_marked_function_may_have_any_name() -> None:
    assert order(a_plain=Plain(), b_renamed=Renamed(), z_early=Early()) == ["z_early", "a_plain", "b_renamed"]
    assert order(a_plain=Plain(), m_before=Before(), z_early=Early()) == ["z_early", "m_before", "a_plain"]


def test_a_function_without_a_mark_implements_nothing() -> None:
    class Unmarked:
        def deep_prompt_sections(self) -> list[Any]:
            return []

    with pytest.raises(PluginError, match="implements no hook: mark its functions"):
        Registry().check("unmarked", Unmarked())


def test_an_implementation_of_another_plugins_hook_sleeps_while_that_plugin_is_absent() -> None:
    class Contributor:
        @hookimpl(of="travel")
        def deep_cities(self, context: object) -> list[str]:
            return ["Oslo"]

    registry = Registry()
    assert registry.check("norway", Contributor()) == ((), (("deep_cities", "travel"),))


def test_a_marked_function_is_the_function_and_still_runs() -> None:
    @hookspec(policy="first")
    def deep_capital(country: str) -> str | None:
        """The capital of a country."""
        return f"of {country}"

    @hookimpl
    def deep_capital_of(country: str) -> str | None:
        return f"in {country}"

    assert (deep_capital("x"), deep_capital_of("x")) == ("of x", "in x")


@pytest.mark.parametrize("policy", ["collect", "one"])
def test_the_registry_reads_the_policy_that_a_declaration_is_marked_with(policy: Any) -> None:
    module = ModuleType("specs")

    def deep_cities(context: object) -> None:
        """Cities."""

    module.deep_cities = hookspec(policy=policy, item="builtins:str", mapping=policy == "collect")(deep_cities)  # type: ignore[attr-defined]
    registry = Registry()
    registry.add_specs("travel", module)
    assert registry.policy("deep_cities") == (policy, "builtins:str", policy == "collect")


def test_marking_imports_neither_pluggy_nor_pydantic() -> None:
    program = """
import sys
from deep_core import hookimpl, hookspec

@hookimpl
def deep_cities(context): ...

@hookspec(policy="collect")
def deep_places(context): ...

print(sorted({"pluggy", "pydantic", "pydantic_ai"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
