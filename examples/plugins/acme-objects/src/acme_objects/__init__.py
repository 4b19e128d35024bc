"""A workspace in an object store, for deep agents.

Importing this module loads neither pydantic nor Pydantic AI: hooks import what they need inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from deep_core import AgentContext, BackendFactory

    from .options import ObjectsOptions

__all__ = ["ObjectsOptions"]

__getattr__, __dir__ = lazy_exports(__name__, {"options": ["ObjectsOptions"]})


@hookimpl
def deep_options() -> type[ObjectsOptions]:
    """What `[plugins.objects.options]` accepts."""
    from .options import ObjectsOptions

    return ObjectsOptions


@hookimpl
def deep_backends(context: AgentContext) -> dict[str, BackendFactory]:
    """The backend `objects`: made once for each session, and connected when the session first needs it."""
    from .backend import ObjectWorkspace
    from .options import ObjectsOptions
    from .store import ObjectStore

    options = context.options(ObjectsOptions)
    return {"objects": lambda session: ObjectWorkspace(ObjectStore(options), session.session_id)}
