"""Run ripgrep as a command of the workspace."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from weakref import WeakSet

from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WorkspaceError, WorkspaceTimeoutError

from ..host import Limit
from ..search import Matches, SearchRequest
from .answer import Answer, Failed, check_exit
from .command import search_command

__all__ = ["known_without", "run_command", "run_search", "run_there"]

NOT_FOUND = 127
"""The exit code of a backend for a program that does not exist."""

# Backends without ripgrep, so that each is asked once.
_without: WeakSet[WorkspaceBackend] = WeakSet()


async def run_there(workspace: Workspace, command: list[str], answer: Answer, found: Matches, limit: Limit) -> None:
    """Run the command of a search, which was told to leave out what the answer knows of.

    Raises:
        Failed: it did not search.
    """
    try:
        result = await workspace.run(command, timeout=limit.left)
    except WorkspaceTimeoutError as error:
        answer.take(error.stdout.encode("utf-8", "surrogateescape"))
        found.partial = True
    except (WorkspaceError, OSError) as error:
        raise Failed from error  # denied, or too much output
    else:
        _check_exit(workspace.backend, result.exit_code)
        answer.take(result.stdout.encode("utf-8", "surrogateescape"))
        answer.end(result.stderr)


async def run_search(
    workspace: Workspace, program: str, request: SearchRequest, arguments: Sequence[str], seconds: float
) -> str:
    """Run a search with these arguments; return what it prints.

    Raises:
        Failed: it did not search.
        WorkspaceTimeoutError: it took longer; it has what was printed until then.
    """
    return await run_command(workspace, search_command(program, request, arguments), seconds)


async def run_command(workspace: Workspace, command: list[str], seconds: float) -> str:
    """Run a command of ripgrep; return what it prints. Raises as `run_search`."""
    try:
        result = await workspace.run(command, timeout=seconds)
    except (WorkspaceError, OSError) as error:
        if isinstance(error, TimeoutError):
            raise
        raise Failed from error  # denied, or too much output: fall back to the walk
    _check_exit(workspace.backend, result.exit_code)
    if result.exit_code == 2 and result.stderr:  # without a message: unreadable files were skipped
        raise Failed
    return result.stdout


def known_without(backend: WorkspaceBackend) -> bool:
    """Whether a backend was asked before, and has none."""
    try:
        return backend in _without
    except TypeError:  # a backend that is unhashable or has no weak references is asked each time
        return False


def _check_exit(backend: WorkspaceBackend, code: int) -> None:
    if code == NOT_FOUND:
        _remember_without(backend)
    check_exit(code)


def _remember_without(backend: WorkspaceBackend) -> None:
    with contextlib.suppress(TypeError):
        _without.add(backend)
