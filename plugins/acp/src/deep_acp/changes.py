"""What a call changes: a file, for the editor's diff, and the todos, for its plan."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.workspaces import Workspace, WorkspaceBackend, WorkspaceError

from deep_core import tool_facts

if TYPE_CHECKING:
    from pydantic_ai import RunContext, ToolDefinition
    from pydantic_ai.messages import ToolCallPart

__all__ = ["Change", "ChangesCapability", "Todos", "preview_change"]

MOST = 400_000
"""Most characters of a text in a diff."""


@dataclass(frozen=True)
class Change:
    """A file, before and after.

    Attributes:
        path: of the file, absolute.
        old: its text before; None if it did not exist.
        new: its text after.
    """

    path: str
    old: str | None
    new: str


@dataclass(frozen=True)
class Todos:
    """The agent's todos after a call.

    Attributes:
        entries: what is to do, and its status.
    """

    entries: tuple[tuple[str, str], ...]


class ChangesCapability(AbstractCapability[Any]):
    """Notes what each call changes in the file that its argument `path` names, and in the todos. It changes no call.

    Args:
        note: receives the session's id, the call's id and the change.
    """

    id = "deep.acp"
    shares_context = True
    """It emits no events, so it needs no context of its own (decision 0010)."""

    def __init__(self, note: Callable[[str, str, Change | Todos], None]) -> None:
        self._note = note

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None: it belongs to one connection."""
        return None

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        """Read the file and the todos before and after the call."""
        todos = _todos(ctx)
        result = await self._watch_file(ctx, call, tool_def, args, handler)
        if (after := _todos(ctx)) != todos:
            self._note(str(ctx.deps.session_id), call.tool_call_id, after)
        return result

    async def _watch_file(
        self,
        ctx: RunContext[Any],
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        path = args.get("path")
        workspace = ctx.workspace
        if not isinstance(path, str) or "read" in tool_facts(tool_def).tags or not workspace.attached:
            return await handler(args)
        before = await _read(path, workspace)
        result = await handler(args)
        after = await _read(path, workspace)
        if before is not None and after is not None and before.new != after.new:
            self._note(str(ctx.deps.session_id), call.tool_call_id, Change(after.path, before.old, after.new))
        return result


def _todos(ctx: RunContext[Any]) -> Todos:
    # By name: deep-todo need not be installed. A subagent's list is its own.
    todos: Any = ctx.deps.state.get("todos", ()) if ctx.deps.depth == 0 else ()
    return Todos(tuple((str(todo.content), str(todo.status)) for todo in todos))


async def preview_change(args: Any, backend: WorkspaceBackend) -> Change | None:
    """Return what a call would change, from the shape of its arguments; None if they do not say it.

    Args:
        args: its arguments: `path` with `content`, or with `old_string` and `new_string`.
        backend: the session's backend.
    """
    path, content = args.get("path"), args.get("content")
    old, new = args.get("old_string"), args.get("new_string")
    if not isinstance(path, str) or not (isinstance(content, str) or (isinstance(old, str) and isinstance(new, str))):
        return None
    before = await _read(path, Workspace(backend))
    if before is None:
        return None
    if isinstance(content, str):
        return Change(before.path, before.old, content)
    count = before.new.count(old) if old else 0
    if not count or (count > 1 and not args.get("replace_all")):
        return None  # the edit would fail
    return Change(before.path, before.old, before.new.replace(old, new))


async def _read(path: str, workspace: Workspace) -> Change | None:
    """Return a file as it is: `old` and `new` are its text. None if it cannot be shown."""
    try:
        absolute = await workspace.resolve(path, base=await workspace.working_dir())
        try:
            text = await workspace.read_text(absolute)
        except FileNotFoundError:
            return Change(absolute, None, "")
    except (OSError, ValueError, WorkspaceError):
        return None  # a folder, another encoding, too large, outside: the tool reports it
    return Change(absolute, text, text) if len(text) <= MOST else None
