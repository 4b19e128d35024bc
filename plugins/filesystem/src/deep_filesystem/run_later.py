"""Ask before a file is written that programs of the user run by themselves. deep-backends has the table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_backends import part_that_runs, reason_of
from pydantic_ai.exceptions import ApprovalRequired

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai import RunContext

    from .access import Place

__all__ = ["ask_before_writing"]


async def ask_before_writing(ctx: RunContext[Any], place: Place, change: Callable[[str], str]) -> None:
    """Ask before a file is written that runs by itself, by whatever name: links are followed.

    Args:
        ctx: of the call.
        place: the file.
        change: returns what the file will hold, of what it holds.

    Raises:
        ApprovalRequired: a person must decide.
    """
    if ctx.tool_call_approved or not (reason_of(place.absolute) or reason_of(place.real)):
        return
    # Not the folders above the workspace: it may be in one of these as a whole.
    root = (await ctx.workspace.working_dir()).rstrip("/") + "/"
    inside = [path.removeprefix(root) for path in (place.absolute, place.real)]
    reason = next(filter(None, map(reason_of, inside)), None)
    if reason is None:
        return
    try:
        before = await ctx.workspace.read_bytes(place.absolute)
    except (OSError, ValueError, RuntimeError):  # it does not exist, or cannot be read: all of it counts
        before = b""
    after = change(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    part = part_that_runs(place.real, after)
    # Of a package.json, the scripts run, and not the rest.
    if part == after or part not in (b"", part_that_runs(place.real, before)):
        raise ApprovalRequired({"plugin": "filesystem", "reason": f"{place.shown} can run programs later: {reason}"})
