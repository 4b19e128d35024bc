"""The agent that `deep run` would use, explained without a model and without a key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from deep_core import Explanation, Kernel
from deep_core.plugin_api import read_agent_config

from .flags import BACKEND

__all__ = ["preview"]


def preview(plugins: Sequence[ModuleType] = (), config: Path | None = None) -> Explanation:
    """What every plugin puts in front of the model.

    Args:
        plugins: given by hand, besides the installed ones.
        config: a configuration file, trusted as code is.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: two plugins clash, or no plugin provides the configured backend.
    """
    from pydantic_ai.models.test import TestModel

    with Kernel(plugins=plugins, config=config) as kernel:
        profile = read_agent_config(kernel.config).runtime_policy.profile
        # What can be explained without a backend is; `deep run` says what to install.
        backend = profile or (BACKEND if "backends" in kernel.active else None)
        # A stand-in model: the configured one would want its key before anything is shown.
        return kernel.explain(kernel.create_agent(TestModel(), backend=backend))
