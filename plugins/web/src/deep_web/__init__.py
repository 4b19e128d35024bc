"""Deep agents in the browser: the command `deep web`, and `create_app` for servers of one's own.

Importing this module loads neither pydantic nor Pydantic AI, and nothing of starlette.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from types import ModuleType

    from .app import create_app
    from .incidents import Incidents
    from .options import WebOptions
    from .site import Site, TooMany

__all__ = ["Incidents", "Site", "TooMany", "WebOptions", "create_app"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "app": ["create_app"],
        "incidents": ["Incidents"],
        "options": ["WebOptions"],
        "site": ["Site", "TooMany"],
    },
)


@hookimpl
def deep_options() -> type[WebOptions]:
    """Return the options of `[plugins.web]`."""
    from .options import WebOptions

    return WebOptions


@hookimpl
def deep_hookspecs() -> list[ModuleType]:
    """Add the hook that says whose a request is."""
    from . import hookspecs

    return [hookspecs]
