"""The hooks of the plugin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl

if TYPE_CHECKING:
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.models import Model

    from deep_core import AgentContext

    from .options import CapabilitiesOptions

__all__ = ["deep_capabilities", "deep_options", "deep_resolve_model"]


@hookimpl
def deep_options() -> type[CapabilitiesOptions]:
    """Return the options of this plugin."""
    from .options import CapabilitiesOptions

    return CapabilitiesOptions


@hookimpl
def deep_capabilities(context: AgentContext) -> list[AbstractCapability[Any]]:
    """Add the capabilities that the configuration names; nothing if it names none."""
    from .options import CapabilitiesOptions

    options = context.options(CapabilitiesOptions)
    if not options.entries:
        return []
    from .agents import add_entries

    return add_entries(context, options)


@hookimpl
def deep_resolve_model(model_id: str) -> Model[Any] | None:
    """Return a model of an installed plugin of `llm`: `llm:DISTRIBUTION:MODEL`."""
    if not model_id.startswith("llm:"):
        return None
    from pydantic_ai.exceptions import UserError

    from .llm_models import llm_model
    from .problems import EntryError

    try:
        return llm_model(model_id)
    except EntryError as error:
        raise UserError(str(error)) from error
