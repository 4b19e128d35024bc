"""Explain the agent of `deep run`, or the one that `--agent` names, without a model or key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from deep_core import Explanation, Kernel
from deep_core.plugin_api import read_agent_config

from ..failure import USAGE, Failure
from ..flags import BACKEND

__all__ = ["KnownWindow", "Preview", "preview", "preview_own"]


class KnownWindow(NamedTuple):
    """The window of the agent's model.

    Attributes:
        model: its id; None if none is named.
        tokens: the window.
        source: who says so: `configured`, `server`, `list`, `learned` or `guess`.
    """

    model: str | None
    tokens: int
    source: str


class Preview(NamedTuple):
    """What `deep explain` shows.

    Attributes:
        agent: what every plugin adds.
        window: how much fits into the model.
    """

    agent: Explanation
    window: KnownWindow


def preview(plugins: Sequence[ModuleType] = (), config: Path | None = None) -> Preview:
    """Explain what every plugin adds to the prompt, and how much fits into the model's window.

    Args:
        plugins: in addition to the installed ones.
        config: a configuration file; it is trusted.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: two plugins clash, or no plugin provides the configured backend.
    """
    import asyncio

    from deep_sessions import explained_window
    from pydantic_ai.models.test import TestModel

    with Kernel(plugins=plugins, config=config) as kernel:
        settings = read_agent_config(kernel.config)
        profile = settings.runtime_policy.profile
        # Without a backend, explain the rest; `deep run` says what to install.
        backend = profile or (BACKEND if "backends" in kernel.active else None)
        # A stand-in model: the configured one would ask for its key first.
        explanation = kernel.explain(kernel.create_agent(TestModel(), backend=backend))
        return Preview(explanation, KnownWindow(settings.model.id, *asyncio.run(explained_window(kernel))))


def preview_own(name: str) -> Preview:
    """Explain the agent that `--agent` names, if our kernel made it.

    Raises:
        ConfigError: it names nothing, or nothing that is an agent.
        Failure: no kernel made it.
    """
    import asyncio
    import os

    from deep_sessions import explained_window
    from pydantic_ai import Agent

    from deep_core import explain

    from ..run.agent import find_agent

    own = asyncio.run(find_agent(name, os.getcwd()))
    if own.kernel is None or not isinstance(own.agent, Agent):
        raise Failure(f"--agent {name}: no plugin of deep is in this agent, so there is nothing to explain", USAGE)
    with own.kernel as kernel:
        explanation = explain(own.agent)
        # A model that code names is not in the configuration.
        if own.model in ("", read_agent_config(kernel.config).model.id):
            window = asyncio.run(explained_window(kernel))
        else:
            window = asyncio.run(explained_window(Kernel(discover=False, config={"agent": {"model": own.model}})))
        return Preview(explanation, KnownWindow(own.model or None, *window))
