"""Choose how ripgrep searches a workspace, if it can."""

from __future__ import annotations

import contextlib
import os
from functools import cache

from pydantic_ai.workspaces import SupportsCommands, Workspace

from deep_core import SupportsRoute
from deep_core.plugin_api import find_program

from ..access import is_of_this_machine
from ..host import TimeUp, directory_opener
from ..search import PIECE, Matches, SearchRequest
from .answer import Failed
from .elsewhere import search_elsewhere
from .here import runs_here, search_here
from .lines import with_lines
from .recoded import search_recoded
from .workspace import known_without

__all__ = ["can_try", "search_by_ripgrep"]


def can_try(workspace: Workspace, request: SearchRequest) -> bool:
    """Whether ripgrep can be used: it is there or can be run, and the pattern is in the subset."""
    backend = workspace.backend
    return request.dialect.ripgrep is not None and (
        runs_here(workspace)
        or (
            isinstance(backend, SupportsCommands)
            and not isinstance(backend, SupportsRoute)  # its commands see only some of its files
            and not workspace.read_only
            and not known_without(backend)
        )
    )


async def search_by_ripgrep(workspace: Workspace, request: SearchRequest, seconds: float) -> Matches | None:
    """Search with ripgrep: one run to count. The lines of the first files are found by Python, or by a second run.

    Returns:
        None if ripgrep is missing or fails.

    Raises:
        TooMany: there are too many files.
    """
    program = await _program(workspace)
    opener = directory_opener(workspace)
    if program is None:
        return None
    top = await workspace.realpath(await workspace.working_dir())
    if opener is not None and request.is_file and ((await workspace.stat(request.root)).size or 0) < PIECE:
        return None  # one small file takes less than a process

    async def search(request: SearchRequest) -> Matches:
        if opener is None:
            return await search_elsewhere(workspace, program, request, top, seconds)
        return await search_here(workspace, opener, program, request, top, seconds)

    with contextlib.suppress(Failed, TimeUp):
        foreign = request.dialect.foreign
        found = await (search_recoded(workspace, search, request, seconds) if foreign else search(request))
        return found if not request.lines else await with_lines(workspace, program, request, found, seconds)
    return None


async def _program(workspace: Workspace) -> str | None:
    """Return what starts ripgrep: on this machine its path, because a workspace may have an `rg` of its own."""
    if not is_of_this_machine(workspace):
        return "rg"  # the container's
    return _on_this_machine(os.environ.get("PATH", os.defpath), await workspace.working_dir())


@cache
def _on_this_machine(path: str, root: str) -> str | None:
    return find_program("rg", outside=root)
