"""Hides texts from the model, and keeps them from tools that send.

Importing this module loads neither pydantic nor Pydantic AI: hooks import what they need inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from deep_core import AgentContext, Deny, Processor, ToolCall

    from .options import RedactorOptions

__all__ = ["RedactorOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["RedactorOptions"]})


@hookimpl
def deep_options() -> type[RedactorOptions]:
    """What `[plugins.redactor.options]` accepts."""
    from .options import RedactorOptions

    return RedactorOptions


@hookimpl
def deep_history_processors(context: AgentContext) -> list[Processor]:
    """The processor that changes messages before each request."""
    from .history import build_redactor
    from .options import RedactorOptions

    return [build_redactor(context.options(RedactorOptions))]


@hookimpl
def deep_check_call(call: ToolCall, context: AgentContext) -> Deny | None:
    """Decide on one tool call, of any plugin."""
    from .checks import check
    from .options import RedactorOptions

    return check(call, context.options(RedactorOptions))
