"""Text that is not ASCII: ripgrep finds it in UTF-8 only, and says which files are not UTF-8. Python searches those."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace

from anyio import move_on_after
from pydantic_ai.workspaces import Workspace

from ..dialect import NOT_UTF8
from ..matching import Matching
from ..search import Matches, SearchRequest, match_file
from ..walk import Found, LeftOut

__all__ = ["search_recoded"]

MOST = 2_000
"""Maximum files that are searched again."""


async def search_recoded(
    workspace: Workspace,
    search: Callable[[SearchRequest], Awaitable[Matches]],
    request: SearchRequest,
    seconds: float,
) -> Matches:
    """Let ripgrep find the files that match or are not UTF-8, and search them in Python, decoded as `read_file` does.

    Raises:
        Failed, TimeUp, TooMany: as the search.
    """
    dialect, found = request.dialect, Matches(request)
    either = replace(dialect, ripgrep=f"(?:{dialect.ripgrep})|{NOT_UTF8.ripgrep}")
    maybe = await search(replace(request, dialect=either, files=MOST))
    found.partial = maybe.partial
    if not maybe.raw:  # a small tree: Python has searched it
        found.count(maybe.files, maybe.lines, maybe.first())
        return found
    many = maybe.files > MOST
    if many:
        request.left.clear()
        found = await search(request)
        left = LeftOut(request.left.above)
        maybe = await search(replace(request, dialect=NOT_UTF8, files=MOST, counts=False, left=left))
        found.partial |= maybe.partial or maybe.files > MOST
    with move_on_after(seconds) as scope:
        async with Matching(dialect) as matching:
            for each in maybe.first():
                with contextlib.suppress(OSError, ValueError):  # it is gone since
                    size = (await workspace.stat(each.path)).size
                    matches = await match_file(workspace, request, matching, Found("", each.path, size))
                    if matches is None:
                        request.left.binary += not many  # it matched before its first NUL byte
                    elif matches.count and (matches.recoded or not many):
                        found.add([matches])
    found.partial |= scope.cancelled_caught
    return found
