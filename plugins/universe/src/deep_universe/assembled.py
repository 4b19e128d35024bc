"""The agent that `deep run` has in this folder, for commands that need no model."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_cli import load_plugin_files

from deep_core import Kernel, ToolExpression
from deep_core.plugin_api import read_agent_config

if TYPE_CHECKING:
    from pydantic_ai import Agent

__all__ = ["assembled"]


@contextmanager
def assembled(
    plugin_files: Sequence[Path],
    config: Path | None,
    model: str | None = None,
    backend: str | None = None,
    only: ToolExpression | None = None,
) -> Generator[tuple[Kernel, Agent[Any, Any]]]:
    """Yield the kernel of all plugins and its agent.

    Args:
        plugin_files: `-p`.
        config: `--config`.
        model: for tools that ask a model; None reads the configuration, which may name none.
        backend: a backend's name; None reads the configuration, then takes `local`.
        only: the tools that the agent has, and so its subagents; None for all.

    Raises:
        ConfigError: a configuration key or value is wrong.
        PluginError: two plugins clash, or no plugin provides the backend.
    """
    with Kernel(plugins=load_plugin_files(plugin_files), config=config) as kernel:
        settings = read_agent_config(kernel.config)
        place = backend or settings.runtime_policy.profile or "local"
        yield kernel, kernel.create_agent(model or settings.model.id, backend=place, tool_filter=only)
