"""A plugin's capability gets no place behind the kernel's last check, unless the user names the plugin."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.capabilities import AbstractCapability, CapabilityOrdering

from deep_core import PluginError
from deep_core.agent.explain import explain
from deep_core.agent.run.capability import AttemptCapability, DeepCapability
from tests.agent.policy.test_gates import WrapsEverything, WrapsThePolicy
from tests.plugins_by_hand import agent_of, kernel_of, plugin, run


class Durable(AbstractCapability[Any]):
    """Where those for durable execution stand."""

    def __init__(self) -> None:
        self.id = "durable"
        self.ran = False

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="innermost")

    async def before_run(self, ctx: Any) -> None:
        self.ran = True


class Behind(AbstractCapability[Any]):
    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(wrapped_by=[DeepCapability])


class BehindAttempts(AbstractCapability[Any]):
    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(wrapped_by=[AttemptCapability])


@pytest.mark.parametrize("kind", [WrapsThePolicy, WrapsEverything])
def test_a_place_outside_the_policy_is_given_to_no_plugin(kind: type[AbstractCapability[Any]]) -> None:
    for named in ([], ["eager"]):
        with pytest.raises(PluginError, match=f"eager.*{kind.__name__} asks for a place outside the policy"):
            agent_of(plugin("eager", capabilities=[kind()]), innermost=named, approvers=named)


@pytest.mark.parametrize("kind", [Durable, Behind, BehindAttempts])
def test_a_place_behind_the_last_check_is_given_to_named_plugins_only(kind: type[AbstractCapability[Any]]) -> None:
    with pytest.raises(PluginError, match=r"asks for a place behind.*innermost=\[…\]\) or innermost in \[agent\]"):
        agent_of(plugin("dbos", capabilities=[kind()]))
    with pytest.raises(PluginError, match="behind"):
        agent_of(plugin("dbos", capabilities=[kind()]), plugin("other", toolsets=[]), innermost=["other"])


@pytest.mark.parametrize("how", [{"innermost": ["dbos"]}, {"config": {"agent": {"innermost": ["dbos"]}}}])
def test_a_named_plugins_capability_is_innermost_and_works(how: dict[str, Any]) -> None:
    durable = Durable()
    agent = agent_of(plugin("dbos", capabilities=[durable]), **how)
    run(agent)
    assert durable.ran
    assert explain(agent).capabilities[-1] == {"id": "durable", "plugin": "dbos"}


def test_a_misspelt_plugin_is_an_error_with_a_suggestion() -> None:
    kernel = kernel_of(plugin("dbos", capabilities=[Durable()]))
    with pytest.raises(PluginError, match=r"innermost: no plugin 'dbso'.*dbos"):
        kernel.create_agent("test", innermost=["dbso"])


def test_a_subagent_cannot_name_one() -> None:
    contexts: list[Any] = []
    agent_of(plugin("boss", toolsets=lambda context: contexts.append(context) or []))  # type: ignore[func-returns-value]
    with pytest.raises(TypeError, match="innermost"):
        contexts[0].create_agent("test", innermost=["boss"])


def test_a_plugin_can_ask_whether_the_kernel_would_refuse_a_capability() -> None:
    said: list[str] = []

    def ask(context: Any) -> list[Any]:
        for capability in (Durable(), Behind()):
            try:
                context.vet(capability)
            except PluginError as error:
                said.append(str(error))
        return []

    agent_of(plugin("dbos", capabilities=ask), innermost=["dbos"])
    assert said == []
    agent_of(plugin("dbos", capabilities=ask))
    assert [text.count("behind the kernel's last check") for text in said] == [1, 1]
