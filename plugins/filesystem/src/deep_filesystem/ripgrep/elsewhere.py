"""Search where a folder costs a command, as in a container: list them only where there are rules of git."""

from __future__ import annotations

import contextlib
import posixpath
import re
from collections.abc import Iterable
from dataclasses import replace

from anyio import fail_after
from pydantic_ai.workspaces import Workspace, WorkspaceTimeoutError

from ..forms import FAILURES
from ..gitignore import exists
from ..search import FileMatches, Matches, SearchRequest
from ..suggestions import SECONDS
from ..survey import Listing, list_below
from ..walk import SKIPPED, LeftOut, TooMany, walk
from .command import COMMON, PRUNED, escape
from .workspace import run_command, run_search

__all__ = ["search_elsewhere"]

_COUNT = re.compile(r"([^\0]*)\0(\d+)\n")
ASKED = 1_000
"""Maximum folders to ask for rules in a workspace that is not of this machine."""


async def search_elsewhere(
    workspace: Workspace, program: str, request: SearchRequest, top: str, seconds: float
) -> Matches:
    """Search a directory or a file of another machine, or of a container.

    Raises:
        Failed: ripgrep did not search.
    """
    left = request.left
    root, arguments = request.root, ["--count", "--no-messages", *([] if request.counts else ["--max-count=1"])]
    if request.is_file:
        root, name = posixpath.split(request.root)
        arguments += ["--max-depth=1", "--glob", escape(name)]
    arguments += [f"--glob=!**/{name}/" for name in sorted(SKIPPED)]
    unsure = False
    if left.above is not None and not request.is_file:
        if left.above.size or await exists(workspace, posixpath.join(request.root, ".gitignore")):
            arguments += await _leave_out(workspace, request, top, seconds / 2)
        else:
            unsure = True
    arguments.append(f"--max-filesize={request.max_bytes}")
    found = Matches(request)
    found.raw = True
    try:
        printed = await run_search(workspace, program, request, [*arguments, "--", root or "/"], seconds)
    except WorkspaceTimeoutError as error:
        printed = error.stdout
        found.partial = True
    counts = {path: int(count) for path, count in _COUNT.findall(printed) if "\ufffd" not in path}
    # Without rules at the top, what git ignores was searched. It has no match, unless there are rules above one.
    if unsure and await _has_rules_above(workspace, program, request.root, counts, seconds):
        await _leave_out(workspace, request, top, seconds / 2)
    if request.is_file:
        counts = {path: count for path, count in counts.items() if path == request.root}
    ignored, folders = {*left.files}, tuple(f"{folder}/" for folder in left.folders)
    start = len(request.root.rstrip("/")) + 1
    wanted = request.wanted
    found.add(
        FileMatches(path, count)
        for path, count in counts.items()
        if path not in ignored
        and not path.startswith(folders)
        and (wanted is None or wanted.matches(request.prefix + path[start:]))
    )
    if not found.files and wanted is not None and not left.wanted:
        left.alike += await _alike(workspace, request)
    return found


async def _has_rules_above(workspace: Workspace, program: str, root: str, paths: Iterable[str], seconds: float) -> bool:
    """Whether a folder between the root and one of the paths may have rules of git."""
    folders: set[str] = set()
    for path in paths:
        while (path := posixpath.dirname(path)) not in folders and path.startswith(root):
            folders.add(path)
            if len(folders) > ASKED:
                return True
    rules = [posixpath.join(folder, name) for folder in sorted(folders) for name in (".gitignore", ".git/info/exclude")]
    try:
        # It prints those that exist.
        command = [program, "--files", "--no-messages", *COMMON, "--", *rules]
        return bool(rules) and bool(await run_command(workspace, command, seconds / 2))
    except TimeoutError:
        return True


async def _alike(workspace: Workspace, request: SearchRequest) -> list[str]:
    """Return the files that would be wanted but for the case of their letters."""
    left = LeftOut(request.left.above)
    with contextlib.suppress(TooMany, *FAILURES):
        sieve = replace(request, left=left).sieve()
        await list_below(workspace, request.root, sieve, Listing(0, request.root, request.hidden), SECONDS)
    return [] if left.wanted else left.alike


async def _leave_out(workspace: Workspace, request: SearchRequest, top: str, seconds: float) -> list[str]:
    """Find what git ignores, as the search without ripgrep does; return the arguments that leave out its folders."""
    with contextlib.suppress(TimeoutError, TooMany):  # then what was found until now is left out
        with fail_after(seconds):
            async for _ in walk(workspace, request.root, request.sieve()):
                pass
    start = top.rstrip("/") + "/"  # where the command runs, and so where its globs begin
    inside = [path.removeprefix(start) for path in request.left.folders[:PRUNED] if path.startswith(start)]
    return [f"--glob=!/{escape(path)}/" for path in inside]
