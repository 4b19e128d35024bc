"""What ripgrep does not find: text that is not ASCII, in files that are not UTF-8."""

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

__all__ = ["add_recoded"]

MOST = 2_000
"""Maximum files that are searched again."""


async def add_recoded(
    workspace: Workspace,
    search: Callable[[SearchRequest], Awaitable[Matches]],
    request: SearchRequest,
    found: Matches,
    seconds: float,
) -> None:
    """Let ripgrep find the files that are not UTF-8, and search them in Python, decoded as `read_file` does.

    Raises:
        Failed, TimeUp, TooMany: as the search.
    """
    left = LeftOut(request.left.above)
    others = await search(replace(request, dialect=NOT_UTF8, lines=0, files=MOST, counts=False, left=left))
    files = others.first()
    found.partial |= others.partial or others.files > len(files)
    with move_on_after(seconds) as scope:
        async with Matching(request.dialect) as matching:
            for each in files:
                with contextlib.suppress(OSError, ValueError):  # it is gone since
                    size = (await workspace.stat(each.path)).size
                    matches = await match_file(workspace, request, matching, Found("", each.path, size))
                    if matches is not None and matches.recoded:
                        found.add([matches])
    found.partial |= scope.cancelled_caught
