"""The fields of `[agent]`: each one that is accepted has an effect, and every other is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.models.test import TestModel

from deep_core import AgentConfig, ConfigError
from tests.plugins.test_config import WEATHER
from tests.plugins_by_hand import Tools, agent_of, kernel_of, plugin, run, scripted
from tests.stubs import Call, ScriptedModel


@pytest.mark.parametrize(
    ("config", "honored_by"),
    [
        ({"context": {"max_tokens": 3}}, "deep-summarization"),
        ({"loop": {"max_steps": 3}}, "agent runtime"),
        ({"session": {"store": "x"}}, "deep-sessions"),
        ({"observability": {"trace": True}}, "agent runtime"),
        ({"prompt": {"variables": {"a": "b"}}}, "agent runtime"),
        ({"prompt": {"append_time_hint": True}}, "agent runtime"),
        ({"model": {"retry": {"attempts": 3}}}, "agent runtime"),
        ({"model": {"tool_choice": "auto"}}, "agent runtime"),
        ({"tools_policy": {"max_parallel": 3}}, "agent runtime"),
        ({"runtime_policy": {"sandbox_mode": "none"}}, "agent runtime"),
    ],
)
def test_a_field_that_nothing_honors_yet_is_refused_naming_what_will(config: dict[str, Any], honored_by: str) -> None:
    with pytest.raises(ConfigError, match=rf"nothing installed honors this yet.*{honored_by}"):
        agent_of(config={"agent": config})


def configured(config: dict[str, Any], *more: object, **how: Any) -> tuple[Any, Tools, ScriptedModel]:
    tools = Tools("forecast", tags=["read"]).add("report", tags=["write"])
    model = scripted(Call("forecast", {}))
    agent = agent_of(plugin(WEATHER, toolsets=[tools.toolset]), *more, config={"agent": config}, model=model, **how)
    return agent, tools, model


def test_identity_names_the_agent() -> None:
    agent, _, _ = configured({"identity": {"name": "ada", "description": "Counts."}})
    assert (agent.name, agent.description) == ("ada", "Counts.")


def test_prompt_is_the_base_prompt() -> None:
    agent, _, model = configured({"prompt": {"system": "You count."}})
    run(agent)
    assert model.player.views[0].system == "You count."


def test_model_names_the_model_and_its_settings() -> None:
    named = {"acme:x": TestModel(custom_output_text="x")}
    acme = plugin("acme", resolve_model=lambda model_id: named.get(model_id))
    settings = {"temperature": 0.5, "max_tokens": 7, "timeout_ms": 1500}
    for model in ("acme:x", {"provider": "acme", "model": "x"}):
        agent = agent_of(acme, config={"agent": {"model": model}}, model="acme:x")
        assert agent.model is named["acme:x"]
    kernel = kernel_of(acme, config={"agent": {"model": {"provider": "acme", "model": "x", **settings}}})
    agent = kernel.create_agent()
    assert agent.model is named["acme:x"]
    assert agent.model_settings == {"temperature": 0.5, "max_tokens": 7, "timeout": 1.5}
    assert kernel.create_agent(model_settings={"max_tokens": 9}).model_settings == {
        "temperature": 0.5,
        "max_tokens": 9,
        "timeout": 1.5,
    }


@pytest.mark.parametrize(
    ("config", "ran", "offered"),
    [
        ({"tools_policy": {"enabled": False}}, 0, 0),
        ({"tools_policy": {"enabled": True}}, 1, 2),
        ({"tools_policy": {"allow_list": ["forecast"]}}, 1, 1),
        ({"tools_policy": {"allow_list": "write"}}, 0, 1),
        ({"tools_policy": {"allow_list": []}}, 0, 0),
        ({"tools_policy": {"require_approval_by_default": True}}, 0, 2),
        ({"tools_policy": {"require_approval_by_default": True}, "interrupt_on": {"forecast": False}}, 1, 2),
        ({"tool_filter": "write"}, 0, 1),
        ({"interrupt_on": {"forecast": True}}, 0, 2),
        ({"interrupt_on": "read"}, 0, 2),
        ({"interrupt_on": True}, 0, 2),
    ],
)
def test_tools_policy_tool_filter_and_interrupt_on(config: dict[str, Any], ran: int, offered: int) -> None:
    agent, tools, model = configured(config)
    run(agent)
    assert (len(tools.ran), len(model.player.views[0].tools)) == (ran, offered)


def test_runtime_policy_names_the_backend() -> None:
    with pytest.raises(Exception, match=r"no plugin provides a backend 'sandbx'"):
        configured({"runtime_policy": {"profile": "sandbx"}})


def test_approvers_names_a_plugin_that_may_approve() -> None:
    async def approve(ctx: Any, requests: Any) -> Any:
        return requests.build_results(approve_all=True)

    def clerk() -> object:
        return plugin("clerk", capabilities=[HandleDeferredToolCalls(handler=approve)])

    asking = {"interrupt_on": {"forecast": True}}
    with pytest.raises(Exception, match="could approve"):
        configured(asking, clerk())
    agent, tools, _ = configured({**asking, "approvers": ["clerk"]}, clerk())
    assert (run(agent).output, tools.names) == ("done", ["forecast"])
    with pytest.raises(Exception, match="Did you mean 'clerk'"):
        configured({**asking, "approvers": ["clrk"]}, clerk())


def test_every_field_that_is_accepted_is_named_here() -> None:
    """A new field needs a test of its effect above, and a place in this list."""
    fields = {
        f"{name}.{inner}" if hasattr(field.annotation, "model_fields") else name
        for name, field in AgentConfig.model_fields.items()
        for inner in getattr(field.annotation, "model_fields", {"": None})
    }
    assert fields == {
        *("schema_version", "identity.name", "identity.description", "prompt.system"),
        *("model.provider", "model.model", "model.temperature", "model.max_tokens", "model.timeout_ms"),
        *("tools_policy.enabled", "tools_policy.allow_list", "tools_policy.require_approval_by_default"),
        *("runtime_policy.profile", "tool_filter", "interrupt_on", "approvers", "innermost", "native_tools"),
    }
