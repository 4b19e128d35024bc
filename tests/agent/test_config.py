"""The fields of `[agent]`: each one that is accepted has an effect, and every other is refused."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import deep_sessions
import pytest
from pydantic import BaseModel
from pydantic_ai.capabilities import HandleDeferredToolCalls
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from deep_core import AgentConfig, ConfigError
from deep_core.agent.config import HONORED_BY
from tests.environments import REPOSITORY
from tests.plugins.test_config import WEATHER
from tests.plugins_by_hand import Tools, agent_of, kernel_of, plugin, run, scripted
from tests.stubs import Call, ScriptedModel


@pytest.mark.parametrize("key", HONORED_BY)
def test_a_key_that_only_a_plugin_honors_needs_the_plugin(key: str) -> None:
    """A value of the right type that is not the default, wherever it is set."""
    section, _, field = key.partition(".")
    inner: Any = {
        "profile": "small",
        "loop": {"max_iterations": 5},
        "context": {"max_history_messages": 5},
        "session": {"auto_create": False},
        "observability": {"enable_trace": True},
        "limits": {"day": {"usd": 3.5}},
        "model": {
            "retry": {"retry": {"max_attempts": 2}},
            "stall_ms": {"stall_ms": 5_000},
            "context_window": {"context_window": 8_192},
        }.get(field, {field: ["test"]}),
        "models": {field: "test"},
        "prompt": {field: field != "allow_override"},
        "tools_policy": {field: 3},
        "runtime_policy": {field: "read_only"},
    }[section]
    with pytest.raises(ConfigError, match=rf"agent\.{key}: needs deep-{HONORED_BY[key]}: pip install deep-"):
        agent_of(config={"agent": {section: inner}})


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({"schema_version": 2}, "agent.schema_version"),
        ({"identity": {"description": "x" * 1025}}, "agent.identity.description"),
        ({"prompt": {"system": object()}}, "agent.prompt.system"),
        ({"prompt": {"system": "x" * 200_001}}, "agent.prompt.system"),
        ({"prompt": {"variables": {"f": lambda: 1}}}, "agent.prompt.variables"),
        ({"prompt": {"system": "{{x}}", "variables": {"y": 1}}}, r"agent.prompt.*variables has no 'x'"),
        ({"model": {"temperature": 2.1}}, "agent.model.temperature"),
        ({"model": {"max_tokens": 0}}, "agent.model.max_tokens"),
        ({"model": {"timeout_ms": 0}}, "agent.model.timeout_ms"),
        ({"model": {"retry": {"max_attempts": 0}}}, "agent.model.retry.max_attempts"),
        ({"model": {"retry": {"max_attempts": 11}}}, "agent.model.retry.max_attempts"),
        ({"model": {"retry": {"backoff_ms": 60_001}}}, "agent.model.retry.backoff_ms"),
        ({"context": {"max_input_tokens": 512}}, "agent.context.max_input_tokens"),
        ({"context": {"max_history_messages": 0}}, "agent.context.max_history_messages"),
        ({"tools_policy": {"max_parallel": 0}}, "agent.tools_policy.max_parallel"),
        ({"tools_policy": {"max_parallel": 257}}, "agent.tools_policy.max_parallel"),
        ({"tools_policy": {"max_calls_per_run": 0}}, "agent.tools_policy.max_calls_per_run"),
        ({"loop": {"max_iterations": 0}}, "agent.loop.max_iterations"),
        ({"loop": {"max_iterations": 1001}}, "agent.loop.max_iterations"),
        ({"loop": {"max_tool_rounds": -1}}, "agent.loop.max_tool_rounds"),
        ({"loop": {"max_tool_rounds": 5, "max_iterations": 5}}, "agent.loop.*max_iterations, which is 5"),
        ({"loop": {"max_run_duration_ms": 999}}, "agent.loop.max_run_duration_ms"),
        ({"loop": {"max_steps": 3}}, "agent.loop.max_steps: unknown key"),
        ({"runtime_policy": {"sandbox_mode": "none"}}, "agent.runtime_policy.sandbox_mode"),
        ({"runtime_policy": {"working_directory": ""}}, "agent.runtime_policy.working_directory"),
        ({"observability": {"log_level": "trace"}}, "agent.observability.log_level"),
        ({"limits": {"run": {"requests": 0}}}, "agent.limits.run.requests"),
        ({"limits": {"day": {"usd": 0}}}, "agent.limits.day.usd"),
        ({"interrupt_on": 3}, r"agent\.interrupt_on: Input should be"),
    ],
)
def test_a_value_out_of_bounds_is_refused_with_its_path(config: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        agent_of(deep_sessions, config={"agent": config})


def test_G1_a_configuration_is_stored_and_read_back() -> None:
    config = AgentConfig.model_validate(
        {"prompt": {"variables": {"a": [1, {"b": None}]}}, "limits": {"day": {"usd": 2}}}
    )
    assert AgentConfig.model_validate_json(config.model_dump_json()) == config


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


def test_prompt_variables_are_put_into_the_base_prompt() -> None:
    prompt = {"system": "You are {{ name }}, {{n}} times.", "variables": {"name": "Ada", "n": 3}}
    agent, _, model = configured({"prompt": prompt})
    run(agent)
    assert model.player.views[0].system == "You are Ada, 3 times."
    agent, _, model = configured({"prompt": {"system": "Write {{ name }}."}})
    run(agent)
    assert model.player.views[0].system == "Write {{ name }}."


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", ["auto", "auto"]),
        ("none", ["none", "none"]),
        ("required", ["required", None]),
        ("forecast", [["forecast"], None]),
    ],
)
def test_model_tool_choice_forces_the_first_request_only(choice: str, sent: list[Any]) -> None:
    seen: list[Any] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append((info.model_settings or {}).get("tool_choice"))
        return ModelResponse([TextPart("done")] if len(seen) == 2 else [ToolCallPart("forecast", {})])

    tools = Tools("forecast", tags=["read"])
    agent = agent_of(
        plugin(WEATHER, toolsets=[tools.toolset]),
        config={"agent": {"model": {"tool_choice": choice}}},
        model=FunctionModel(answer),
    )
    run(agent)
    assert seen == sent


def test_model_tool_choice_of_an_unknown_tool_ends_the_run_before_a_request(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9")
    agent = agent_of(config={"agent": {"model": {"tool_choice": "forecst"}}}, model="openai:gpt-5")
    with pytest.raises(UserError, match=r"forecst"):
        run(agent)


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


SESSIONS = "plugins/sessions/tests"
EFFECTS = {
    "tests/agent/test_config.py": {
        "identity_names_the_agent": ["identity.name", "identity.description"],
        "prompt_is_the_base_prompt": ["prompt.system"],
        "prompt_variables_are_put_into_the_base_prompt": ["prompt.variables"],
        "model_names_the_model_and_its_settings": [
            *("model.provider", "model.model", "model.temperature", "model.max_tokens", "model.timeout_ms"),
        ],
        "model_tool_choice_forces_the_first_request_only": ["model.tool_choice"],
        "tools_policy_tool_filter_and_interrupt_on": [
            *("tools_policy.enabled", "tools_policy.allow_list", "tools_policy.require_approval_by_default"),
            *("tool_filter", "interrupt_on"),
        ],
        "approvers_names_a_plugin_that_may_approve": ["approvers"],
    },
    "tests/agent/policy/test_vetting.py": {"a_named_plugins_capability_is_innermost_and_works": ["innermost"]},
    "tests/agent/policy/test_native_tools.py": {
        "a_native_tool_that_was_not_named_is_refused_and_one_that_was_named_is_sent": ["native_tools"],
    },
    "plugins/backends/tests/test_modes.py": {
        "runtime_policy_sandbox_mode_read_only_denies_writes": [
            *("runtime_policy.profile", "runtime_policy.sandbox_mode"),
        ],
        "runtime_policy_working_directory_is_where_the_workspace_works": ["runtime_policy.working_directory"],
    },
    "plugins/summarization/tests/test_limiting.py": {
        "model_context_window_is_what_compaction_begins_below": ["model.context_window"],
        "context_max_history_messages_bounds_a_request_and_not_the_store": ["context.max_history_messages"],
        "context_enable_compaction_off_makes_a_long_history_an_error": ["context.enable_compaction"],
        "context_enable_compaction_on_summarizes_at_max_input_tokens": ["context.max_input_tokens"],
    },
    f"{SESSIONS}/test_deep_agent.py": {
        "K7_a_configuration_of_a_later_version_is_refused": ["schema_version"],
        "O4_K8_a_configuration_may_forbid_overrides": ["prompt.allow_override"],
        "session_auto_create_off_refuses_an_unknown_id": ["session.auto_create"],
    },
    f"{SESSIONS}/test_small.py": {
        "profile_small_offers_four_tools_in_less_than_600_tokens": ["profile"],
    },
    f"{SESSIONS}/test_hints.py": {
        "prompt_append_time_hint_is_the_date_and_no_clock": ["prompt.append_time_hint"],
        "prompt_append_runtime_hint_is_the_same_for_a_session": ["prompt.append_runtime_hint"],
    },
    f"{SESSIONS}/test_retries.py": {
        "model_retry_ends_after_its_attempts_and_at_other_errors": ["model.retry.max_attempts"],
        "model_stall_ms_ends_a_stream_that_says_nothing": ["model.stall_ms"],
        "model_retry_max_wait_ms_and_backoff_ms_bound_the_waits": ["model.retry.max_wait_ms", "model.retry.backoff_ms"],
    },
    "tests/test_models.py": {
        "thinking_is_pydantic_ais_setting": ["model.thinking"],
        "base_url_and_api_key_env_reach_a_server_of_ones_own": ["model.base_url", "model.api_key_env"],
        "fallback_asks_the_next_model_and_the_events_name_who_answered": ["model.fallback"],
        "models_of_roles_work_in_subagents_and_write_summaries": ["models.summary", "models.subagent"],
    },
    f"{SESSIONS}/test_parallel.py": {
        "tools_policy_max_parallel_bounds_the_calls_and_keeps_their_order": ["tools_policy.max_parallel"],
    },
    f"{SESSIONS}/test_loop_limits.py": {
        "tools_policy_max_calls_per_run_refuses_the_batch_that_would_pass_it": ["tools_policy.max_calls_per_run"],
        "loop_max_iterations_refuses_the_next_model_request": ["loop.max_iterations"],
        "loop_max_tool_rounds_stops_the_run_before_the_next_round": ["loop.max_tool_rounds"],
        "loop_max_run_duration_ms_ends_a_run_that_loops": ["loop.max_run_duration_ms"],
    },
    f"{SESSIONS}/test_deltas.py": {
        "O3_persist_delta_stores_the_pieces_in_few_batches": ["session.persist_delta"],
    },
    f"{SESSIONS}/test_instrumentation.py": {
        "observability_reports_what_is_enabled": ["observability.enable_trace", "observability.enable_metrics"],
    },
    f"{SESSIONS}/test_step_config.py": {
        "observability_log_level_is_of_this_agents_logger_alone": ["observability.log_level"],
    },
    f"{SESSIONS}/test_budgets.py": {
        "limits_run_requests": ["limits.run.requests"],
        "limits_run_tokens_and_usd": ["limits.run.tokens", "limits.run.usd"],
        "limits_session_counts_all_its_runs_in_any_process": ["limits.session.*"],
        "limits_owner_and_day_count_all_sessions_of_the_owner": ["limits.owner.*", "limits.day.*"],
    },
}
"""File -> test -> the fields of `[agent]` whose effect it shows."""


def fields_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        inner: Any = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from fields_of(inner, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_every_field_that_is_accepted_has_a_test_of_its_effect() -> None:
    shown = [field for tests in EFFECTS.values() for fields in tests.values() for field in fields]
    accepted = {*fields_of(AgentConfig)}
    assert {field for field in accepted if field not in shown and f"{field.rpartition('.')[0]}.*" not in shown} == set()
    assert {field for field in shown if not field.endswith("*")} <= accepted
    for file, tests in EFFECTS.items():
        source = (REPOSITORY / file).read_text("utf-8")
        assert [name for name in tests if f"def test_{name}(" not in source] == [], file
