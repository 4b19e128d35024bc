"""Explain the agent of `deep run`, without a model or key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from deep_core import Explanation, Kernel
from deep_core.plugin_api import read_agent_config

from ..flags import BACKEND

__all__ = ["preview"]


def preview(plugins: Sequence[ModuleType] = (), config: Path | None = None) -> Explanation:
    """Explain what every plugin adds to the prompt.

    Args:
        plugins: in addition to the installed ones.
        config: a configuration file; it is trusted.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: two plugins clash, or no plugin provides the configured backend.
    """
    from pydantic_ai.models.test import TestModel

    with Kernel(plugins=plugins, config=config) as kernel:
        profile = read_agent_config(kernel.config).runtime_policy.profile
        # Without a backend, explain the rest; `deep run` says what to install.
        backend = profile or (BACKEND if "backends" in kernel.active else None)
        # A stand-in model: the configured one would ask for its key first.
        return kernel.explain(kernel.create_agent(TestModel(), backend=backend))
