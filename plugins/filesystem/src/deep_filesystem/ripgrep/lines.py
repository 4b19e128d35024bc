"""The lines of the first files that ripgrep found: by Python, or by a second run."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace

from pydantic_ai.workspaces import Workspace, WorkspaceTimeoutError

from ..host import directory_opener
from ..linematch import LONG_LINE, shown_line
from ..matching import Matching
from ..search import FileMatches, Matches, SearchRequest, match_file
from ..walk import Found
from .workspace import run_search

__all__ = ["with_lines"]

_LINE = re.compile(r"([^\0]*)\0(\d+):([^\n]*)(?:\n|\Z)")
_OMITTED = re.compile(r"\[Omitted long (?:matching )?line.*\]")


async def with_lines(
    workspace: Workspace, program: str, request: SearchRequest, found: Matches, seconds: float
) -> Matches:
    """Add the lines of the first files."""
    first: list[FileMatches] = []
    lines = 0
    for matches in found.first():
        if lines >= request.lines:
            break
        first.append(matches)
        lines += matches.count
    if not first:
        return found
    dialect = request.dialect
    if directory_opener(workspace) is not None and (dialect.linear or dialect.simple):
        shown: dict[str, list[tuple[int, str | None]]] = {}
        lines = 0
        async with Matching(dialect) as matching:
            for each in first:
                with contextlib.suppress(OSError, ValueError):  # it is gone since
                    size = (await workspace.stat(each.path)).size or 0
                    rest = replace(request, lines=request.lines - lines)
                    matches = await match_file(workspace, rest, matching, Found("", each.path, size))
                    shown[each.path] = matches.shown if matches else []
                    lines += len(shown[each.path])
    else:
        shown = await _lines_by_ripgrep(workspace, program, request, [each.path for each in first], seconds)
    found.show(shown)
    return found


async def _lines_by_ripgrep(
    workspace: Workspace, program: str, request: SearchRequest, paths: list[str], seconds: float
) -> dict[str, list[tuple[int, str | None]]]:
    # One more, because ripgrep counts the line feed; `shown_line` decides.
    arguments = ["--line-number", f"--max-count={request.lines}", f"--max-columns={LONG_LINE + 1}", "--no-messages"]
    try:
        printed = await run_search(workspace, program, request, [*arguments, "--", *paths], seconds)
    except WorkspaceTimeoutError as error:
        printed = error.stdout
    shown: dict[str, list[tuple[int, str | None]]] = {}
    for path, number, text in _LINE.findall(printed):
        line = None if _OMITTED.fullmatch(text) else shown_line(text)
        shown.setdefault(path, []).append((int(number), line))
    return shown
