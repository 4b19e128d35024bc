"""Ask before a file is written that programs of the user run by themselves. deep-backends has the table.

And ask no person about a change that cannot be made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_backends import part_that_runs, reason_of
from pydantic_ai.exceptions import ApprovalRequired, ToolFailed
from pydantic_ai.workspaces import WorkspaceError

from deep_core import Ask, Deny

from .access import locate
from .failures import tool_failures
from .locks import holding
from .slot import FILES
from .writing import check_seen

if TYPE_CHECKING:
    from collections.abc import Callable

    from pydantic_ai import RunContext

    from deep_core import ToolCall

    from .access import Place
    from .options import FilesystemOptions

__all__ = ["ask_before_writing", "check_call"]


async def ask_before_writing(ctx: RunContext[Any], place: Place, change: Callable[[str], str]) -> None:
    """Ask before a file is written that runs by itself, by whatever name: links are followed.

    If the call asks for another reason too, `check_call` has added this one.

    Args:
        ctx: of the call.
        place: the file.
        change: returns what the file will hold, of what it holds.

    Raises:
        ApprovalRequired: a person must decide.
    """
    if not ctx.tool_call_approved and (text := await _why(ctx, place, change)):
        raise ApprovalRequired({"reasons": [{"kind": "runs_later", "text": text, "plugin": "filesystem"}]})


async def check_call(ctx: RunContext[Any], call: ToolCall, options: FilesystemOptions) -> Ask | Deny | None:
    """Say of a call that a person is asked about that it writes such a file, whatever plugin's tool it is.

    A change of a file that the agent has not read fails at once: a person said yes to a diff, and then nothing was
    changed.
    """
    path = call.args.get("path", call.args.get("file_path"))
    if "write" not in call.tags or not isinstance(path, str) or not ctx.workspace.attached:
        return None
    if call.plugin == "filesystem" and (why := await _why_not(ctx, call, path, options)):
        return Deny(why)
    content, old, new = (call.args.get(name) for name in ("content", "old_string", "new_string"))

    def change(before: str) -> str:
        if isinstance(old, str) and isinstance(new, str):
            return before.replace(old, new, -1 if call.args.get("replace_all") else 1)
        return content if isinstance(content, str) else ""

    try:
        text = await _why(ctx, await locate(ctx.workspace, path), change)
    except (OSError, ValueError, WorkspaceError):
        return None  # outside, or not a path: the tool says so
    return Ask(text, "runs_later") if text else None


async def _why_not(ctx: RunContext[Any], call: ToolCall, path: str, options: FilesystemOptions) -> str:
    files, whole = ctx.deps.state[FILES], call.original == "write_file"
    try:
        async with tool_failures(ctx.workspace, path):
            place = await locate(ctx.workspace, path)
            try:
                async with holding(place.lock):
                    await check_seen(ctx.workspace, place, files, whole=whole, max_bytes=options.max_bytes)
            except FileNotFoundError:
                return ""  # an earlier call that waits may create it
    except ToolFailed as error:
        return str(error)
    except WorkspaceError:
        return ""  # the tool says so
    return ""


async def _why(ctx: RunContext[Any], place: Place, change: Callable[[str], str]) -> str:
    if not (reason_of(place.absolute) or reason_of(place.real)):
        return ""
    # Not the folders above the workspace: it may be in one of these as a whole.
    root = (await ctx.workspace.working_dir()).rstrip("/") + "/"
    inside = [path.removeprefix(root) for path in (place.absolute, place.real)]
    reason = next(filter(None, map(reason_of, inside)), None)
    if reason is None:
        return ""
    try:
        before = await ctx.workspace.read_bytes(place.absolute)
    except (OSError, ValueError, RuntimeError):  # it does not exist, or cannot be read: all of it counts
        before = b""
    after = change(before.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    part = part_that_runs(place.real, after)
    # Of a package.json, the scripts run, and not the rest.
    runs = part == after or part not in (b"", part_that_runs(place.real, before))
    return f"{place.shown} can run programs later: {reason}" if runs else ""
