"""The agent of a worker, as `deep run` assembles it, with its sessions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from deep_sessions import Outcome, Runner, open_store, session_capabilities

from deep_core import ConfigError, Kernel
from deep_core.plugin_api import read_agent_config

if TYPE_CHECKING:
    from pydantic_ai.models import Model

__all__ = ["Stored", "open_runner"]


class Stored:
    """What `finish` needs of a runner.

    Args:
        runner: the runner.
        provider: the address and the name of its model.
    """

    def __init__(self, runner: Runner, provider: str) -> None:
        self.provider = provider
        self.store = runner.store
        self.resume = runner.resume
        self._runner = runner

    async def run_next(self, session_id: str) -> Outcome:
        """Run the agent with the first message that waits."""
        return await self._runner.run_next(session_id, run_id=uuid4().hex)


@asynccontextmanager
async def open_runner(
    kernel: Kernel, store: str, *, model: str | None = None, backend: str | None = None, lease: float = 30.0
) -> AsyncGenerator[Stored]:
    """Create the agent of all plugins; yield what resumes its sessions.

    Args:
        kernel: whose plugins the agent uses.
        store: the URL of the sessions.
        model: a model's id; None reads the configuration.
        backend: a backend's name; None reads the configuration, then takes `local`.
        lease: seconds until another process takes over a session whose process is silent.

    Raises:
        ConfigError: no model is named, or a value or the URL is wrong.
        PluginError: two plugins clash, or no plugin provides the backend.
    """
    settings = read_agent_config(kernel.config)
    chosen = model or settings.model.id
    if chosen is None:
        raise ConfigError("a worker needs a model: deep worker --model openai:gpt-5.2, or [agent] model in deep.toml")
    agent = kernel.create_agent(
        chosen, backend=backend or settings.runtime_policy.profile or "local", capabilities=session_capabilities()
    )
    opened = open_store(store, kernel=kernel)
    try:
        used = agent.model
        provider = chosen if used is None or isinstance(used, str) else _provider(used)
        yield Stored(Runner(agent, opened, kernel=kernel, ttl=lease), provider)
    finally:
        await opened.aclose()


def _provider(model: Model[Any]) -> str:
    return f"{model.base_url or model.system} {model.model_name}"
