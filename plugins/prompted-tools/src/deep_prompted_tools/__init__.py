"""Tool calling for models that have none: tools as text, calls read from the reply.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability

    from deep_core import AgentContext

    from .capability import PromptedTools
    from .model import PromptedModel
    from .options import PromptedToolsOptions

__all__ = ["PromptedModel", "PromptedTools", "PromptedToolsOptions"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "capability": ["PromptedTools"],
        "model": ["PromptedModel"],
        "options": ["PromptedToolsOptions"],
    },
)


@hookimpl
def deep_options() -> type[PromptedToolsOptions]:
    """Return the options of this plugin."""
    from .options import PromptedToolsOptions

    return PromptedToolsOptions


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Add the capability that wraps models without tool calls, unless nothing is to be done."""
    from .options import PromptedToolsOptions

    options = context.options(PromptedToolsOptions)
    if options.mode == "never" and not options.recover:
        return []
    from .capability import for_agent

    return [for_agent(context, options)]
