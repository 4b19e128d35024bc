"""Web tools for deep agents: fetch a page as Markdown, and search through the provider that the user configured.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext

    from .options import WebToolsOptions
    from .toolset import create_web_toolset

__all__ = ["WebToolsOptions", "create_web_toolset"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "options": ["WebToolsOptions"],
        "toolset": ["create_web_toolset"],
    },
)


@hookimpl
def deep_options() -> type[WebToolsOptions]:
    """Return the options of this plugin."""
    from .options import WebToolsOptions

    return WebToolsOptions


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add `fetch`, and `search` if a provider is configured."""
    from .options import WebToolsOptions
    from .toolset import build_toolset

    return [build_toolset(context.options(WebToolsOptions))]
