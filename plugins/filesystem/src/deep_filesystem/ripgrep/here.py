"""Search a directory of this machine: the walk and ripgrep run beside each other.

ripgrep learns what the walk has found when it starts, of which the folders that git ignores at the root matter most,
and which names the root's rules ignore everywhere: if the walk then finds that git keeps one, ripgrep starts again.
What the walk finds in others is left out of its answer.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Sequence

from pydantic_ai.workspaces import Workspace

from ..host import Limit, SupportsOpenDirectory, directory_opener, in_thread, scan
from ..search import Matches, SearchRequest
from ..walk import SKIPPED
from .answer import Answer, Survey
from .beside import WalkBeside
from .command import Told, escape, relative_to, search_command, tell
from .process import Restartable, Started
from .workspace import run_there

__all__ = ["runs_here", "search_here"]

PATIENCE = 1.0
"""Minimum seconds to wait for a ripgrep that does not know all that git ignores, before it is started again."""


def runs_here(workspace: Workspace) -> bool:
    """Whether this process may run ripgrep itself: the backend's commands are not confined further than its files.

    The backend would start a supervisor first, which takes longer than ripgrep in a small tree.
    """
    kind = type(workspace.backend)
    if directory_opener(workspace) is None or not hasattr(kind, "run"):
        return False
    return len({next(each for each in kind.__mro__ if name in vars(each)) for name in ("open_directory", "run")}) == 1


async def search_here(
    workspace: Workspace,
    opener: SupportsOpenDirectory,
    program: str,
    request: SearchRequest,
    top: str,
    seconds: float,
) -> Matches:
    """Search a directory or a file of this machine.

    Raises:
        Failed: ripgrep did not search.
        TimeUp, TooMany: as `scan`.
    """
    limit = Limit(seconds)
    found = Matches(request)
    above = top.rstrip("/") + "/"

    def command(told: Told) -> list[str]:
        return search_command(
            program, request, ["--count" if request.counts else "--files-with-matches", *told.arguments]
        )

    if request.is_file:
        folder, name = posixpath.split(request.root)
        # ripgrep searches a file of the command line even if it is binary, but not one found in a directory.
        told = Told(["--max-depth=1", "--glob", escape(name), "--", relative_to(folder, above)])
        answer = Answer(request, above, Survey(), found)
        if runs_here(workspace):
            found.partial = await in_thread(lambda: _run(command(told), top, answer, limit), limit)
        else:
            await run_there(workspace, command(told), answer, found, limit)
        return found

    def search_beside() -> None:
        """Walk while ripgrep runs: the walk takes a quarter of its time, which a second processor has."""
        sieve = request.sieve()
        with (
            Restartable(lambda told: Started(command(told), top)) as process,
            WalkBeside(request, sieve, found, limit) as walk,
        ):
            walk.on_stop = lambda: process.start(
                tell(SKIPPED, request, above, with_files=False, names=sieve.gone - sieve.kept)
            )
            began = time.monotonic()
            walk.look(scan(opener, request.root, top, sieve, limit), process.drain)
            if walk.finish():
                return
            told = process.told
            missed = [
                path for path in request.left.folders[told.folders :] if posixpath.basename(path) not in told.names
            ]
            if not told.names.isdisjoint(sieve.kept) or (
                # It may be lost in a large folder that git ignores.
                missed and process.runs(min(limit.left, _patience(began)))
            ):
                process.start(tell(SKIPPED, request, above, with_files=True))
            answer = Answer(request, above, walk.survey(process.told, above), found)
            found.partial = process.read(answer, limit)

    if runs_here(workspace):
        await in_thread(search_beside, limit)
        return found

    def survey() -> Told | None:
        sieve = request.sieve()
        with WalkBeside(request, sieve, found, limit) as walk:
            walk.look(scan(opener, request.root, top, sieve, limit))
            if walk.finish():
                return None
            told = tell(sieve.skipped, request, above, with_files=True)
            surveys.append(walk.survey(told, above))
        return told

    surveys: list[Survey] = []
    if (told := await in_thread(survey, limit)) is not None:
        answer = Answer(request, above, surveys[0], found)
        await run_there(workspace, command(told), answer, found, limit)
    return found


def _run(command: Sequence[str], folder: str, answer: Answer, limit: Limit) -> bool:
    with Started(command, folder) as started:
        return started.read(answer, limit)


def _patience(began: float) -> float:
    """Seconds to wait for ripgrep after a walk that began then, before it learns what the walk found."""
    return max(PATIENCE, 4 * (time.monotonic() - began))
