"""Deep agents inside editors, over the Agent Client Protocol: the command `deep acp`.

Importing this module loads neither pydantic nor Pydantic AI, and nothing of the protocol's SDK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from .agent import EditorAgent
    from .connection import serve
    from .files import EditorBackend
    from .options import AcpOptions

__all__ = ["AcpOptions", "EditorAgent", "EditorBackend", "serve"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "agent": ["EditorAgent"],
        "connection": ["serve"],
        "files": ["EditorBackend"],
        "options": ["AcpOptions"],
    },
)


@hookimpl
def deep_options() -> type[AcpOptions]:
    """Return the options of `[plugins.acp]`."""
    from .options import AcpOptions

    return AcpOptions
