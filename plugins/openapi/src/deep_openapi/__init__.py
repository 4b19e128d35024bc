"""The operations of OpenAPI documents as tools for deep agents, under the agent's policy.

Importing this module loads neither pydantic nor Pydantic AI. The readers of documents load when an agent first lists
its tools.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import StateSlot, hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai.toolsets import AbstractToolset

    from deep_core import AgentContext

    from .options import OpenapiOptions

__all__ = ["OpenapiOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["OpenapiOptions"]})

USED: StateSlot[dict[str, str]] = StateSlot("openapi_used", dict[str, str], dict[str, str])
"""Name of each tool -> the run that called it first. Later runs see it without a search, also after a compaction."""


@hookimpl
def deep_options() -> type[OpenapiOptions]:
    """Return the options of this plugin."""
    from .options import OpenapiOptions

    return OpenapiOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add which operations a conversation has used."""
    return [USED]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add the operations of the configured services; nothing if none is configured."""
    from .options import OpenapiOptions

    options = context.options(OpenapiOptions)
    if not options.apis:
        return []
    from .apis import read_apis
    from .toolset import OpenapiToolset

    apis = read_apis(context, options.apis)
    return [OpenapiToolset(apis, options, context, USED)] if apis else []
