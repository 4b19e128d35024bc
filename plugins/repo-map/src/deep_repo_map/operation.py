"""The tool's work: read the files, rank them, write the map."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence

from anyio import fail_after, to_thread
from pydantic_ai.exceptions import ToolFailed
from pydantic_ai.workspaces import Workspace, WorkspaceError, WorkspaceUnavailableError

from deep_core.plugin_api import visible

from .options import RepoMapOptions
from .ranking import rank
from .rendering import render
from .slot import Memory
from .sources import Limits, Sources, read_sources

__all__ = ["draw_map"]

MOST_FOCUS = 20
"""Names, paths and words of a focus that count; and characters of each."""
FOCUS_CHARS = 200
SLACK = 10.0
"""Seconds beyond the limit, for what was begun within it."""


async def draw_map(
    workspace: Workspace, path: str, focus: Sequence[str], tokens: int, memory: Memory, options: RepoMapOptions
) -> str:
    """Return the map of the files below `path`.

    Raises:
        ToolFailed: there is no such path, or the workspace cannot be listed.
    """
    terms = [term for term in (each.strip()[:FOCUS_CHARS] for each in focus[:MOST_FOCUS]) if term]
    limits = Limits(options.max_files, options.max_file_bytes, options.seconds)
    try:
        root = await workspace.working_dir()
        below = posixpath.relpath(await workspace.resolve(path or ".", base=root), root)
        if below.startswith("..") and path.startswith("/"):  # models write `/src` for `src`
            below = posixpath.normpath(path.lstrip("/") or ".")
        below = "" if below == "." else below
        with fail_after(options.seconds + SLACK):
            sources = await read_sources(workspace, below, memory, limits)
    except WorkspaceUnavailableError:
        raise
    except TimeoutError as error:
        raise ToolFailed(f"listing the files takes longer than {options.seconds:g} s. Use glob.") from error
    except (OSError, ValueError, WorkspaceError) as error:
        raise ToolFailed(f"the files cannot be listed: {error}") from error
    if not sources.files:
        raise ToolFailed(f"{visible(path)[:200]}: no files here that git does not ignore. Use ls.")
    most = max(1, min(tokens, options.max_tokens))
    return await to_thread.run_sync(_draw, sources, terms, most, abandon_on_cancel=True)


def _draw(sources: Sources, focus: Sequence[str], tokens: int) -> str:
    return render(sources, rank(sources.files, focus), tokens)
