"""Uploads for deep agents: files that a user hands over, named safely, measured, bounded, shown to the model.

Importing this module loads neither pydantic nor Pydantic AI: public names come on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl

if TYPE_CHECKING:
    from collections.abc import Callable

    from deep_core import AgentContext, DeepAgentDeps, PromptSection, StateSlot

    from .errors import UploadError, UploadLimitError
    from .options import UploadsOptions
    from .slot import UPLOADS, UploadedFile
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

_HOME = {
    "UPLOADS": "slot",
    "Data": "sources",
    "UploadError": "errors",
    "UploadLimitError": "errors",
    "UploadedFile": "slot",
    "UploadsOptions": "options",
    "run_with_files": "upload",
    "upload_file": "upload",
}


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


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    value: object = getattr(import_module(f".{_HOME[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
