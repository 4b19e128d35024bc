"""Models by configuration: thinking, a server of one's own, fallback, and models of single roles."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import deep_backends
import deep_demo
import deep_sessions
import deep_subagents
import deep_summarization
import pytest

from deep_core import ConfigError, Kernel, create_default_deps, hookimpl
from deep_core.plugin_api import ignored_keys, read_agent_config
from tests.stubs import Call, Failure, OpenAIStub, Script

LOCAL = {"provider": "lmstudio", "model": "qwen3", "api_key_env": "LOCAL_KEY"}


class Listener:
    def __init__(self) -> None:
        self.models: list[str] = []

    @hookimpl
    def deep_run_event(self, event: Any) -> None:
        if type(event).__name__ == "RequestEvent":
            self.models.append(event.model)


def kernel_of(agent: dict[str, Any], *more: object, **options: Any) -> Kernel:
    plugins = [deep_backends, deep_demo, deep_sessions, deep_subagents, deep_summarization, *more]
    config: dict[str, Any] = {"agent": agent, "plugins": {name: {"options": value} for name, value in options.items()}}
    return Kernel(plugins=plugins, discover=False, config=config)


def ask(kernel: Kernel, *prompts: str, model: Any = None) -> str:
    """Run the agent of the configuration, or of a model; return its last answer."""

    async def main() -> str:
        agent, deps, history = kernel.create_agent(model), create_default_deps(kernel=kernel), None
        output = ""
        async with agent:  # closes its connections
            for prompt in prompts or ["go"]:
                result = await agent.run(prompt, deps=deps, message_history=history)
                output, history = str(result.output), result.all_messages()
        return output

    return asyncio.run(main())


def test_thinking_is_pydantic_ais_setting() -> None:
    with OpenAIStub(Script("hello")) as stub:
        model = {"provider": "openai", "model": "gpt-5", "base_url": stub.base_url, "thinking": "high"}
        with kernel_of({"model": model}) as kernel:
            assert ask(kernel) == "hello"
    assert stub.requests[0]["reasoning_effort"] == "high"
    with (
        pytest.raises(ConfigError, match=r"agent\.model\.thinking"),
        kernel_of({"model": {"thinking": "hard"}}) as kernel,
    ):
        kernel.create_agent("test")


def test_base_url_and_api_key_env_reach_a_server_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    with OpenAIStub(Script("hello")) as stub, kernel_of({"model": {**LOCAL, "base_url": stub.base_url}}) as kernel:
        with pytest.raises(ConfigError, match=r"api_key_env: LOCAL_KEY is not set: export LOCAL_KEY=…"):
            kernel.create_agent()
        monkeypatch.setenv("LOCAL_KEY", "secret")
        assert ask(kernel) == "hello"
        assert stub.requests[0]["model"] == "qwen3"
        assert ask(kernel, "echo", model="demo:echo") == "echo"  # named in code: not of that server
    with OpenAIStub(Script("open")) as stub:
        model = {"provider": "ollama", "model": "m", "base_url": stub.base_url}
        with kernel_of({"model": model}) as kernel:
            assert ask(kernel) == "open"


def test_a_server_without_a_model_is_an_error_and_no_key_that_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "x")  # it would go to OpenAI
    with (
        pytest.raises(ConfigError, match=r"agent\.model\.base_url: name the model of that server"),
        kernel_of({"model": {"base_url": "http://127.0.0.1:9/v1"}}) as kernel,
    ):
        kernel.create_agent("openai-chat:small")


def test_a_projects_file_names_no_server_and_no_other_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = 'base_url = "http://evil.example"\napi_key_env = "HOME"\nfallback = ["demo:echo"]\n'
    (tmp_path / "deep.toml").write_text(f'[agent.model]\n{keys}[agent.models]\nsummary = "demo:echo"\n')
    monkeypatch.chdir(tmp_path)
    with pytest.warns(UserWarning, match=r"agent\.model\.base_url"), Kernel() as kernel:
        section = kernel.create_agent("test") and kernel.config
    assert read_agent_config(section).model.base_url is None
    ignored = " ".join(ignored_keys(section))
    assert all(f"agent.model.{key}" in ignored for key in ("base_url", "api_key_env", "fallback"))
    assert "agent.models.summary" in ignored


def test_fallback_asks_the_next_model_and_the_events_name_who_answered(caplog: pytest.LogCaptureFixture) -> None:
    listener = Listener()
    with OpenAIStub(Script(then=Failure(400))) as stub:
        model = {"model": "m", "base_url": stub.base_url, "fallback": ["demo:echo"]}
        with kernel_of({"model": model}, listener) as kernel:
            assert ask(kernel, "say it") == "say it"
    assert len(stub.requests) == 1
    assert listener.models == ["echo"]
    assert "a model failed, and the next one is asked" in caplog.text


@pytest.mark.parametrize("fallback", ["openai-chat:gpt-5.2", "nobody:knows"])
def test_a_fallback_without_a_key_or_of_no_provider_is_one_error(
    fallback: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    agent = {"model": {"provider": "demo", "model": "echo", "fallback": [fallback]}}
    wanted = r"agent\.model\.fallback: .*(OPENAI_API_KEY|Unknown model: nobody:knows)"
    with kernel_of(agent) as kernel, pytest.raises(ConfigError, match=wanted):
        ask(kernel)


@pytest.mark.slow
def test_models_of_roles_work_in_subagents_and_write_summaries(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = Script(Call("task", {"description": "work"}), *map(str, range(12)))
    with OpenAIStub(steps) as stub:
        for name, value in stub.env.items():
            monkeypatch.setenv(name, value)
        roles = {"subagent": "openai-chat:mini", "summary": "openai-chat:small"}
        options = {"trigger": [["messages", 6]], "keep": ["messages", 1]}
        config = {"model": {"provider": "openai-chat", "model": "main"}, "models": roles}
        with kernel_of(config, summarization=options) as kernel:
            ask(kernel, "go", "on", "and on", "further")
    models = [request["model"] for request in stub.requests]
    assert models[:3] == ["main", "mini", "main"]
    assert "small" in models[3:]
    assert set(models) == {"main", "mini", "small"}
