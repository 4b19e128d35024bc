"""Uploads for deep agents: files of the user, stored under a safe name, measured, limited, and listed for the model.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from deep_core import AgentContext, DeepAgentDeps, PromptSection, StateSlot

    from .errors import UploadError, UploadLimitError
    from .options import UploadsOptions
    from .record import UploadedFile
    from .slot import UPLOADS
    from .sources import Data
    from .upload import run_with_files, upload_file

__all__ = [
    "UPLOADS",
    "Data",
    "UploadError",
    "UploadLimitError",
    "UploadedFile",
    "UploadsOptions",
    "run_with_files",
    "upload_file",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "errors": ["UploadError", "UploadLimitError"],
        "options": ["UploadsOptions"],
        "slot": ["UPLOADS"],
        "sources": ["Data"],
        "upload": ["run_with_files", "upload_file"],
        "record": ["UploadedFile"],
    },
)


@hookimpl
def deep_options() -> type[UploadsOptions]:
    """Return the options of this plugin."""
    from .options import UploadsOptions

    return UploadsOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slots for the session's uploads, and for uploads in progress."""
    from .slot import IN_FLIGHT, UPLOADS

    return [UPLOADS, IN_FLIGHT]


@hookimpl
def deep_session_methods() -> dict[str, Callable[..., Any]]:
    """Add `await deps.upload_file(…)`."""
    return {"upload_file": _upload_file}


def _upload_file(deps: DeepAgentDeps[Any], name: str, data: Data, **how: Any) -> Coroutine[Any, Any, UploadedFile]:
    # Hooks are called when a kernel loads, without Pydantic AI; `upload` needs it.
    from .awaited import Upload
    from .upload import upload_file

    return Upload(upload_file(deps, name, data, **how), name)


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """List the uploads; nothing if there are none."""
    from deep_core import PromptSection

    from .options import UploadsOptions
    from .section import FilesSection

    return [PromptSection.live("files", FilesSection(context.options(UploadsOptions)))]
