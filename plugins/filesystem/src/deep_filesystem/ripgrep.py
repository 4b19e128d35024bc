"""grep with ripgrep, if the workspace runs commands and has it."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from functools import cache
from weakref import WeakSet

from pydantic_ai.workspaces import SupportsCommands, Workspace, WorkspaceBackend, WorkspaceError

from deep_core import SupportsRoute
from deep_core.plugin_api import find_program

from .access import is_of_this_machine
from .globs import select
from .linematch import LONG_LINE, shown_line
from .search import FileMatches, SearchRequest
from .walk import SKIPPED

__all__ = ["can_try", "search_by_ripgrep"]

# Search every file of the walk in `search`, whatever ignore files, configuration and terminal say. Without
# --no-mmap, ripgrep finds a NUL byte in the first buffer only.
_COMMON = (
    "--no-config", "--no-ignore", "--hidden", "--no-messages", "--no-mmap", "--color=never", "--no-heading",
    "--with-filename", "--null",
)  # fmt: skip
_COUNT = re.compile(r"([^\0]*)\0(\d+)\n")
_LINE = re.compile(r"([^\0]*)\0(\d+):([^\n]*)(?:\n|\Z)")
_OMITTED = re.compile(r"\[Omitted long (?:matching )?line.*\]")
NOT_FOUND = 127
"""The exit code of a backend for a program that does not exist."""
ASKED = 1_000
"""Maximum files with matches to check one by one, about 0.1 ms each. For more, ripgrep checks the sizes."""

# Backends without ripgrep, so that each is asked once.
_without: WeakSet[WorkspaceBackend] = WeakSet()


def can_try(workspace: Workspace, request: SearchRequest) -> bool:
    """Whether ripgrep can be used: the workspace runs commands, may write, and the pattern is in the subset."""
    backend = workspace.backend
    return (
        request.dialect.ripgrep is not None
        and isinstance(backend, SupportsCommands)
        and not isinstance(backend, SupportsRoute)  # its commands see only some of its files
        and not workspace.read_only
        and not _known_without(backend)
    )


async def search_by_ripgrep(workspace: Workspace, request: SearchRequest, seconds: float) -> list[FileMatches] | None:
    """Search with ripgrep: one run to count, one over the first files for their lines.

    Returns:
        The files with matches, sorted by path; None if ripgrep is missing or fails.

    Raises:
        WorkspaceTimeoutError: it exceeded `seconds`.
    """
    root = request.root
    program = await _program(workspace)
    if program is None:
        return None
    arguments = [program, "--count"]
    if request.is_file:
        # ripgrep searches a file of the command line even if it is binary, but not one found in a directory.
        root, name = posixpath.split(request.root)
        arguments += ["--max-depth=1", f"--glob={_escape(name)}"]
    arguments += [f"--glob=!**/{name}/" for name in sorted(SKIPPED)]
    counted = await _count_matches(workspace, arguments, request, root or "/", seconds)
    if counted is None:
        return None
    counts = {path: int(count) for path, count in counted if "\ufffd" not in path}
    if request.is_file:
        paths = [path for path in counts if path == request.root]
    elif request.wanted is None:
        paths = [*counts]
    else:
        start = len(request.root.rstrip("/")) + 1
        paths = await select(request.wanted, [*counts], lambda path: path[start:])
    found = [FileMatches(path, counts[path]) for path in sorted(paths)]
    return await _with_lines(workspace, program, request, found, seconds)


async def _count_matches(
    workspace: Workspace, arguments: list[str], request: SearchRequest, root: str, seconds: float
) -> list[tuple[str, str]] | None:
    """Paths and counts of the files with matches that are not too large; None as in `search_by_ripgrep`."""
    if is_of_this_machine(workspace):
        # --max-filesize reads the size of every file, a third of the time in a tree of small files.
        with contextlib.suppress(TimeoutError):  # maybe a huge text: then without it
            printed = await _run(workspace, arguments, request, [root], seconds / 2)
            if printed is None:
                return None
            found = _COUNT.findall(printed)
            if len(found) <= ASKED:
                return [each for each in found if await _fits(workspace, each[0], request.max_bytes)]
    printed = await _run(workspace, [*arguments, f"--max-filesize={request.max_bytes}"], request, [root], seconds)
    return None if printed is None else _COUNT.findall(printed)


async def _fits(workspace: Workspace, path: str, limit: int) -> bool:
    try:
        size = (await workspace.stat(path)).size
    except OSError:
        return False  # it is gone
    return size is None or size <= limit


async def _program(workspace: Workspace) -> str | None:
    """Return what starts ripgrep: on this machine its path, because a workspace may have an `rg` of its own."""
    if not is_of_this_machine(workspace):
        return "rg"  # the container's
    return _on_this_machine(os.environ.get("PATH", os.defpath), await workspace.working_dir())


@cache
def _on_this_machine(path: str, root: str) -> str | None:
    return find_program("rg", outside=root)


async def _with_lines(
    workspace: Workspace, program: str, request: SearchRequest, found: list[FileMatches], seconds: float
) -> list[FileMatches] | None:
    first: list[str] = []
    lines = 0
    for matches in found:
        if lines >= request.most:
            break
        first.append(matches.path)
        lines += matches.count
    if not first:
        return found
    # One more, because ripgrep counts the line feed; `shown_line` decides.
    arguments = [program, "--line-number", f"--max-count={request.most}", f"--max-columns={LONG_LINE + 1}"]
    printed = await _run(workspace, arguments, request, first, seconds)
    if printed is None:
        return None
    shown: dict[str, list[tuple[int, str | None]]] = {}
    for path, number, text in _LINE.findall(printed):
        line = None if _OMITTED.fullmatch(text) else shown_line(text)
        shown.setdefault(path, []).append((int(number), line))
    return [FileMatches(each.path, each.count, shown.get(each.path, [])) for each in found]


async def _run(
    workspace: Workspace, arguments: list[str], request: SearchRequest, paths: list[str], seconds: float
) -> str | None:
    # The pattern and the paths come from the model: no shell, and no text of theirs can be an option.
    program, *options = arguments
    command = [program, *_COMMON, *options, f"--regexp={request.dialect.ripgrep}", "--", *paths]
    try:
        result = await workspace.run(command, timeout=seconds)
    except (WorkspaceError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        return None  # denied, or too much output: fall back to the walk
    if result.exit_code == NOT_FOUND:
        _remember_without(workspace.backend)
        return None
    # 2 without a message: unreadable files were skipped, as --no-messages asks.
    if result.exit_code not in (0, 1) and not (result.exit_code == 2 and not result.stderr):
        return None
    return result.stdout


def _known_without(backend: WorkspaceBackend) -> bool:
    try:
        return backend in _without
    except TypeError:  # a backend that is unhashable or has no weak references is asked each time
        return False


def _remember_without(backend: WorkspaceBackend) -> None:
    with contextlib.suppress(TypeError):
        _without.add(backend)


def _escape(name: str) -> str:
    return re.sub(r"([*?\[\]{}!\\#])", r"\\\1", name)
