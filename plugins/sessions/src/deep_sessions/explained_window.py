"""The window of the configured model, and who says so: for `deep explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

from deep_core import ConfigError, PluginKernel
from deep_core.plugin_api import read_agent_config

from .requests.windows import find_window
from .slot import Window

if TYPE_CHECKING:
    from pydantic_ai.models import Model

    from deep_core import AgentConfig

__all__ = ["GUESS", "explained_window"]

GUESS = 128_000
"""Tokens of a window that nothing says: deep-summarization takes it too."""
FROM: Mapping[str, str] = {"overflow": "learned"}


async def explained_window(kernel: PluginKernel) -> Window:
    """Return the window of the model that a kernel's configuration names.

    Its `source` is `configured`, `server`, `list` (Pydantic AI's profile, genai-prices), `learned` (an overflow of the
    last days showed it) or `guess`. A server of the user's own is asked; a model that cannot be made here is not.

    Args:
        kernel: the kernel.

    Raises:
        ConfigError: a key or value of the configuration is wrong.
    """
    config = read_agent_config(kernel.config)
    if config.model.context_window is not None:
        return Window(config.model.context_window, "configured")
    model_id = config.model.id
    if model_id is None:
        return Window(GUESS, "guess")
    context = kernel.context("sessions") if "sessions" in kernel.active else None
    model = _model(config, model_id)
    cache = None if context is None else lambda: context.cache_dir
    found = None if model is None else await find_window(model, cache)
    if found is not None:
        return Window(found.tokens, FROM.get(found.source, found.source))
    listed = _listed(model_id)
    return Window(GUESS, "guess") if listed is None else Window(listed, "list")


def _model(config: AgentConfig, model_id: str) -> Model[Any] | None:
    """Return the model; None if it cannot be made here."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model

    try:
        return config.model.served(model_id) or infer_model(model_id)
    except (ConfigError, UserError, ImportError, ValueError):
        return None


def _listed(model_id: str) -> int | None:
    """Return the window of a model that cannot be made here."""
    from pydantic_ai.exceptions import UserError
    from pydantic_ai.models import infer_model_profile

    try:
        tokens = cast("Mapping[str, Any]", infer_model_profile(model_id)).get("context_window")
    except (UserError, ValueError, ImportError):
        return None
    return tokens if isinstance(tokens, int) else None
