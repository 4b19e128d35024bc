"""The output of a command as text of a bounded size; what is left out of it can be read from a file."""

from __future__ import annotations

import hashlib

from pydantic_ai.workspaces import CommandResult, Workspace, WorkspaceError

__all__ = ["render_output", "render_result"]

RESULTS = ".deep/results"
"""Where deep-summarization keeps the large results of other tools. Not part of a project: out of version control."""
ROOM = 300
"""Characters for the exit code, the pointer, and what stands between the parts."""


async def render_result(workspace: Workspace, result: CommandResult, limit: int) -> str:
    """The exit code unless it is 0, standard output, standard error; see `render_output`."""
    output = await render_output(workspace, result.stdout, result.stderr, limit)
    if result.exit_code:
        return f"Exit code {result.exit_code}\n{output}" if output else f"Exit code {result.exit_code}, no output"
    return output or "Exit code 0, no output"


async def render_output(workspace: Workspace, stdout: str, stderr: str, limit: int) -> str:
    """Both streams.

    Where they have more than `limit` characters together, each is cut in the middle, what is shown has no more than
    that in all (a limit below 600 is exceeded a little), and its first line says where all of it is.
    """
    if len(stdout) + len(stderr) <= limit:
        return "\n".join(_parts(stdout, stderr))
    whole = f"{stdout}\n[stderr]\n{stderr}" if stderr.strip() else stdout
    limit = max(limit - ROOM, limit // 2)
    # An error is seldom long: it has its half, and what it leaves is standard output's.
    for_stderr = min(len(stderr), max(limit // 2, limit - len(stdout)))
    parts = _parts(_cut(stdout, limit - for_stderr), _cut(stderr, for_stderr))
    path = await _stored(workspace, whole)
    if path is not None:
        parts.insert(0, f"[all {len(whole):,} characters of it: {path}]")
    return "\n".join(parts)


def _parts(stdout: str, stderr: str) -> list[str]:
    parts = [stdout, f"[stderr]\n{stderr}" if stderr.strip() else ""]
    return [part.rstrip("\n") for part in parts if part.strip()]


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    tail = text[len(text) - half :]
    return f"{text[:half]}\n[... {left_out:,} characters left out; the end follows ...]\n{tail}"


async def _stored(workspace: Workspace, text: str) -> str | None:
    """Where a text now is; None where the workspace does not take it: what is shown then is all there is."""
    data = text.encode("utf-8", "backslashreplace")
    path = f"{RESULTS}/execute-{hashlib.sha256(data).hexdigest()[:12]}.txt"
    try:
        if not await workspace.exists(f"{RESULTS}/.gitignore"):
            await workspace.write_bytes(f"{RESULTS}/.gitignore", b"*\n")
        await workspace.write_bytes(path, data)
    except (OSError, WorkspaceError):  # read-only, full, or without files: no reason to lose what the command said
        return None
    return path
