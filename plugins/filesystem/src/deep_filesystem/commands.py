"""Limit the output of a command; store all of it in a file if deep-summarization is in use."""

from __future__ import annotations

from typing import Any

from pydantic_ai import RunContext
from pydantic_ai.workspaces import CommandResult, WorkspaceError

from .stored import stored_files

__all__ = ["cut", "render_output", "render_result"]

ROOM = 300
"""Characters for the exit code, the pointer and the separators."""


async def render_result(ctx: RunContext[Any], result: CommandResult, limit: int) -> str:
    """Render the exit code unless it is 0, standard output and standard error; see `render_output`."""
    output = await render_output(ctx, result.stdout, result.stderr, limit)
    if result.exit_code:
        return f"Exit code {result.exit_code}\n{output}" if output else f"Exit code {result.exit_code}, no output"
    return output or "Exit code 0, no output"


async def render_output(ctx: RunContext[Any], stdout: str, stderr: str, limit: int) -> str:
    """Render both streams.

    Above `limit` characters together, cut each in the middle to fit (a limit below 600 is slightly exceeded); the
    first line then has the path of the full output, or says that it is not stored.
    """
    if len(stdout) + len(stderr) <= limit:
        return "\n".join(_parts(stdout, stderr))
    whole = f"{stdout}\n[stderr]\n{stderr}" if stderr.strip() else stdout
    limit = max(limit - ROOM, limit // 2)
    # Errors are seldom long: standard error gets half, standard output the rest.
    for_stderr = min(len(stderr), max(limit // 2, limit - len(stdout)))
    parts = _parts(cut(stdout, limit - for_stderr), cut(stderr, for_stderr))
    path = await _store(ctx, whole) or "not stored; redirect the output to a file"
    parts.insert(0, f"[all {len(whole):,} characters: {path}]")
    return "\n".join(parts)


def _parts(stdout: str, stderr: str) -> list[str]:
    parts = [stdout, f"[stderr]\n{stderr}" if stderr.strip() else ""]
    return [part.rstrip("\n") for part in parts if part.strip()]


def cut(text: str, limit: int) -> str:
    """Return the beginning and the end of a text that is too long."""
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    tail = text[len(text) - half :]
    return f"{text[:half]}\n[... {left_out:,} characters omitted; the end follows ...]\n{tail}"


async def _store(ctx: RunContext[Any], text: str) -> str | None:
    """Store a text and return its path; None if nothing stores it, or the workspace does not accept it."""
    files = stored_files(ctx.deps)
    if files is None:
        return None
    try:
        return await files.store(ctx.workspace, "execute", text.encode("utf-8", "backslashreplace"))
    except (OSError, ValueError, WorkspaceError):  # read-only, full, or without files: keep the command's output
        return None
