"""The result of a command as text of a bounded size."""

from __future__ import annotations

from pydantic_ai.workspaces import CommandResult

__all__ = ["render_output", "render_result"]


def render_result(result: CommandResult, limit: int) -> str:
    """The exit code unless it is 0, standard output, standard error; at most about `limit` characters."""
    output = render_output(result.stdout, result.stderr, limit)
    if result.exit_code:
        return f"Exit code {result.exit_code}\n{output}" if output else f"Exit code {result.exit_code}, no output"
    return output or "Exit code 0, no output"


def render_output(stdout: str, stderr: str, limit: int) -> str:
    """Both streams, each cut in the middle where both together have more than `limit` characters."""
    # An error is seldom long: it has its half, and what it leaves is standard output's.
    for_stderr = min(len(stderr), max(limit // 2, limit - len(stdout)))
    parts = [_cut(stdout, limit - for_stderr)]
    if stderr.strip():
        parts.append(f"[stderr]\n{_cut(stderr, for_stderr)}")
    return "\n".join(part.rstrip("\n") for part in parts if part.strip())


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    left_out = len(text) - 2 * half
    tail = text[len(text) - half :]
    return f"{text[:half]}\n[... {left_out:,} characters left out; the end follows ...]\n{tail}"
