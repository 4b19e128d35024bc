"""grep with ripgrep, if the workspace runs commands and has it."""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
from collections.abc import Iterable
from functools import cache
from weakref import WeakSet

from anyio import fail_after
from pydantic_ai.workspaces import (
    SupportsCommands,
    Workspace,
    WorkspaceBackend,
    WorkspaceError,
    WorkspaceTimeoutError,
)

from deep_core import SupportsRoute
from deep_core.plugin_api import find_program

from .access import is_of_this_machine
from .gitignore import exists
from .globs import select
from .linematch import LONG_LINE, shown_line
from .search import FileMatches, Searched, SearchRequest
from .walk import SKIPPED, Ignoring, TooMany, walk

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
PRUNED = 200
"""Maximum ignored folders that ripgrep is told to leave out; what it finds in others is left out afterwards."""
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


async def search_by_ripgrep(workspace: Workspace, request: SearchRequest, seconds: float) -> Searched | None:
    """Search with ripgrep: one run to count, one over the first files for their lines.

    Returns:
        None if ripgrep is missing or fails.
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
    ignoring, unsure = request.ignoring, False
    if ignoring is not None:
        if ignoring.above.size or await exists(workspace, posixpath.join(request.root, ".gitignore")):
            arguments += await _leave_out(workspace, request, ignoring, seconds / 2)
        else:
            unsure = True
    counted, partial = await _count_matches(workspace, arguments, request, root or "/", seconds)
    if counted is None:
        return None
    counts = {path: int(count) for path, count in counted if "\ufffd" not in path}
    # Without rules at the top, what git ignores was searched. It has no match, unless there are rules above one.
    if ignoring and unsure and await _has_rules_above(workspace, program, request.root, counts, seconds):
        await _leave_out(workspace, request, ignoring, seconds / 2)
    if request.is_file:
        paths = [path for path in counts if path == request.root]
    elif request.wanted is None:
        paths = [*counts]
    else:
        start = len(request.root.rstrip("/")) + 1
        paths = await select(request.wanted, [*counts], lambda path: path[start:])
    found = [FileMatches(path, counts[path]) for path in _without_ignored(sorted(paths), ignoring)]
    lines = await _with_lines(workspace, program, request, found, seconds)
    return None if lines is None else Searched(lines, partial)


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
        return bool(rules) and bool(
            await _execute(workspace, [program, "--files", *_COMMON, "--", *rules], seconds / 2)
        )
    except TimeoutError:
        return True


async def _leave_out(workspace: Workspace, request: SearchRequest, ignoring: Ignoring, seconds: float) -> list[str]:
    """Find what git ignores, as the search without ripgrep does, and return the arguments that leave out its folders.

    ripgrep's own reading of the ignore files differs from git's in details, and it does not say what it left out.
    """
    with contextlib.suppress(TimeoutError, TooMany):  # then what was found until now is left out
        with fail_after(seconds):
            async for _ in walk(workspace, request.root, wanted=request.wanted, ignoring=ignoring):
                pass
    start = (await workspace.working_dir()).rstrip("/") + "/"  # where the command runs, and so where its globs begin
    inside = [path.removeprefix(start) for path in ignoring.folders[:PRUNED] if path.startswith(start)]
    return [f"--glob=!/{_escape(path)}/" for path in inside]


def _without_ignored(paths: list[str], ignoring: Ignoring | None) -> list[str]:
    if ignoring is None:
        return paths
    files, folders = {*ignoring.files}, tuple(f"{folder}/" for folder in ignoring.folders)
    return [path for path in paths if path not in files and not path.startswith(folders)]


async def _count_matches(
    workspace: Workspace, arguments: list[str], request: SearchRequest, root: str, seconds: float
) -> tuple[list[tuple[str, str]] | None, bool]:
    """Paths and counts of the files with matches that are not too large, None as above; whether time ran out."""
    if is_of_this_machine(workspace):
        # --max-filesize reads the size of every file, a third of the time in a tree of small files.
        with contextlib.suppress(TimeoutError):  # maybe a huge text: then without it
            printed = await _run(workspace, arguments, request, [root], seconds / 2)
            if printed is None:
                return None, False
            found = _COUNT.findall(printed)
            if len(found) <= ASKED:
                return [each for each in found if await _fits(workspace, each[0], request.max_bytes)], False
    try:
        printed = await _run(workspace, [*arguments, f"--max-filesize={request.max_bytes}"], request, [root], seconds)
    except WorkspaceTimeoutError as error:
        return _COUNT.findall(error.stdout), True
    except TimeoutError:
        return [], True
    return (None if printed is None else _COUNT.findall(printed)), False


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
    try:
        printed = await _run(workspace, arguments, request, first, seconds)
    except WorkspaceTimeoutError as error:
        printed = error.stdout
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
    return await _execute(workspace, command, seconds)


async def _execute(workspace: Workspace, command: list[str], seconds: float) -> str | None:
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
