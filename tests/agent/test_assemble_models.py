"""A model id that nobody knows: the error says what became of the plugin that it names."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.exceptions import UserError

from deep_core import Kernel, PluginWarning, Without
from tests.plugins_by_hand import Site, kernel_of, plugin, run, scripted, site

__all__ = ["site"]

ECHO = """
from deep_core import hookimpl

@hookimpl
def deep_resolve_model(model_id):
    from pydantic_ai.models.test import TestModel

    return TestModel(custom_output_text=model_id) if model_id == "echo:twice" else None

@hookimpl
def deep_prompt_sections(context):
    return {sections}
"""


def unknown(kernel: Kernel, model: str, **how: Any) -> str:
    """The error for an agent with this model."""
    with pytest.raises(UserError, match=f"^Unknown model: {model}") as caught:
        kernel.create_agent(model, **how)
    return str(caught.value)


def test_a_plugins_model_is_resolved(site: Site) -> None:
    site.install("echo", ECHO.format(sections=[]))
    assert run(Kernel().create_agent("echo:twice")).output == "echo:twice"


def test_a_disabled_plugin_is_named_with_what_to_change(site: Site) -> None:
    site.install("echo", ECHO.format(sections=[]))
    text = unknown(Kernel(disable=["echo"]), "echo:twice")
    assert "plugin echo 1.0 (acme-echo) is disabled: disabled in code" in text


def test_a_plugin_that_failed_while_it_loaded_is_named_with_the_reason(site: Site) -> None:
    site.install("echo", "1 / 0")
    with pytest.warns(PluginWarning):
        kernel = Kernel()
    assert "plugin echo 1.0 (acme-echo) is failed: ZeroDivisionError" in unknown(kernel, "echo:twice")


def test_a_plugin_that_failed_for_the_agent_is_named_with_the_reason(site: Site) -> None:
    site.install("echo", ECHO.format(sections="1 / 0"))
    with pytest.warns(PluginWarning):
        text = unknown(Kernel(), "echo:twice")
    assert "plugin echo 1.0 (acme-echo) failed: hook deep_prompt_sections: ZeroDivisionError" in text


def test_a_plugin_that_the_agent_leaves_out_is_named(site: Site) -> None:
    site.install("echo", ECHO.format(sections=[]))
    text = unknown(Kernel(), "echo:twice", plugins=[Without("echo")])
    assert "plugin echo 1.0 (acme-echo) is active, but left out of this agent" in text


def test_a_plugin_that_is_not_there_is_said_to_be_so() -> None:
    text = unknown(kernel_of(plugin("ehco", sections=[])), "echo:twice")
    assert text.endswith("No plugin of this agent resolves it: this kernel has no plugin 'echo'. Did you mean 'ehco'?")


def test_an_id_without_a_prefix_names_no_plugin() -> None:
    assert "plugin" not in unknown(kernel_of(), "gtp-5")


def test_a_plugin_that_asks_for_an_unknown_model_reads_the_same() -> None:
    found: list[str] = []

    def sections(context: Any) -> list[Any]:
        with pytest.raises(UserError) as caught:
            context.resolve_model("echo:twice")
        found.append(str(caught.value))
        return []

    kernel_of(plugin("asks", sections=sections)).create_agent(scripted())
    assert "this kernel has no plugin 'echo'" in found[0]


def test_a_run_that_is_given_an_unknown_model_has_pydantic_ais_own_error(site: Site) -> None:
    site.install("echo", ECHO.format(sections=[]))
    agent = Kernel(disable=["echo"]).create_agent(scripted())
    with pytest.raises(UserError, match=r"^Unknown model: echo:twice$"):
        run(agent, model="echo:twice")


def test_what_else_is_wrong_with_a_model_is_said_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(UserError, match="OPENAI_API_KEY"):
        kernel_of().create_agent("openai:gpt-5.2")
