"""Explain the agent of `deep run`, without a model or key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from deep_core import Explanation, Kernel
from deep_core.plugin_api import read_agent_config

from ..flags import BACKEND

__all__ = ["KnownWindow", "Preview", "preview"]


class KnownWindow(NamedTuple):
    """The window of the configured model.

    Attributes:
        model: its id; None if none is configured.
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
