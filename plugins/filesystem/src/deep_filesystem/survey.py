"""Walk the workspace by the fastest walk that it allows, and keep the first paths only."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence

from anyio import fail_after
from pydantic_ai.workspaces import Workspace

from .host import Limit, TimeUp, directory_opener, in_thread, scan
from .walk import Sieve, walk

__all__ = ["Listing", "list_below"]

SLACK = 20_000
"""Paths to keep beyond the first before the others are dropped."""


class Listing:
    """The first paths of a walk, in their order, and how many there are.

    Attributes:
        total: how many there are.
    """

    def __init__(self, most: int, root: str, hidden: Callable[[str], bool]) -> None:
        """`hidden` tells of an absolute path whether to leave it out."""
        self.total = 0
        self._most = most
        self._root = root.rstrip("/")
        self._hidden = hidden
        self._paths: list[str] = []

    def add(self, relative: str, names: Sequence[str]) -> None:
        """Add names of the folder `relative`, "" or ending in "/"."""
        paths = [relative + name for name in names]
        if ".deep" in relative or ".deep" in self._root:  # no other folder has what belongs to a session
            paths = [path for path in paths if not self._hidden(f"{self._root}/{path}")]
        self.total += len(paths)
        self._paths += paths
        if len(self._paths) > self._most + SLACK:
            self._paths = heapq.nsmallest(self._most, self._paths)

    def first(self) -> list[str]:
        """Return the first paths."""
        return heapq.nsmallest(self._most, self._paths)


async def list_below(workspace: Workspace, root: str, sieve: Sieve, found: Listing, seconds: float) -> bool:
    """Add what the sieve takes below `root`, an absolute real path. Return whether the time ran out before.

    Raises:
        TooMany, OSError: as `walk`.
    """
    opener = directory_opener(workspace)
    if opener is None:
        try:
            with fail_after(seconds):
                async for file in walk(workspace, root, sieve):
                    folder, _, name = file.path.rpartition("/")
                    found.add(f"{folder}/" if folder else "", [name])
        except TimeoutError:
            return True
        return False
    limit = Limit(seconds)
    top = await workspace.realpath(await workspace.working_dir())

    def work() -> bool:
        try:
            for folder in scan(opener, root, top, sieve, limit):
                if folder.names:
                    found.add(folder.relative, folder.names)
        except TimeUp:
            return True
        return False

    return await in_thread(work, limit)
