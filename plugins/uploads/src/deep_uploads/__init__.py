"""Uploads for deep agents: files that a user hands over, named safely, measured, bounded, shown to the model.

Importing this module loads neither pydantic nor Pydantic AI: public names come on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from collections.abc import Callable

    from deep_core import AgentContext, DeepAgentDeps, PromptSection, StateSlot

    from .errors import UploadError, UploadLimitError
    from .options import UploadsOptions
    from .slot import UPLOADS
    from .sources import Data
    from .upload import run_with_files, upload_file
    from .uploaded import UploadedFile

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
        "uploaded": ["UploadedFile"],
    },
)


@hookimpl
def deep_options() -> type[UploadsOptions]:
    """The options model of this plugin."""
    from .options import UploadsOptions

    return UploadsOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """The slot with the session's uploads, and the one that counts those on their way."""
    from .slot import IN_FLIGHT, UPLOADS

    return [UPLOADS, IN_FLIGHT]


@hookimpl
def deep_session_methods() -> dict[str, Callable[..., Any]]:
    """`await deps.upload_file(…)`."""
    return {"upload_file": _upload_file}


async def _upload_file(deps: DeepAgentDeps[Any], name: str, data: Data, **how: Any) -> UploadedFile:
    # Hooks are called when a kernel loads, which needs no framework; `upload` does.
    from .upload import upload_file

    return await upload_file(deps, name, data, **how)


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """What was uploaded; nothing while nothing was."""
    from deep_core import PromptSection

    from .options import UploadsOptions
    from .section import FilesSection

    return [PromptSection.live("files", FilesSection(context.options(UploadsOptions)))]
