"""The two tools for the model."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic_ai import FunctionToolset, RunContext, Tool
from pydantic_ai.exceptions import ToolFailed
from pydantic_core import SchemaValidator, core_schema

from deep_core import SessionStates

from .options import TodoOptions
from .slot import STATUSES, TODOS

if TYPE_CHECKING:
    from pydantic_ai_todo.types import Todo

__all__ = ["build_toolset", "create_todo_toolset"]

NAMED = 3
"""Maximum todos listed when an update drops them unfinished."""

READ_DESCRIPTION = "Show your todo list."
WRITE_DESCRIPTION = (
    "Replace your todo list: give all todos each time. Use it for work of several steps; mark each in_progress before "
    "you start it and completed as soon as it is done."
)
READ_SCHEMA: dict[str, Any] = {"type": "object", "properties": {}}
WRITE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "todos": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "content": {"type": "string"},
                    "status": {"type": "string", "enum": [*STATUSES]},
                    "active_form": {"type": "string"},
                },
                "required": ["content", "status"],
            },
        }
    },
    "required": ["todos"],
}


def build_toolset(options: TodoOptions, *, id: str = "todo") -> FunctionToolset[Any]:
    """Build the toolset for these options. The list is in `ctx.deps.state`, or is its conversation's.

    Neither tool has the tag `write`. Tags describe what a call does to the world, and a todo list is the agent's
    note, which ends with the session: a user who asks about every write (`interrupt_on="write"`) means files, and an
    agent limited to reading (`tool_filter="read"`) may still plan. The tag `plan` selects `write_todos` alone.
    """

    sessions = SessionStates()

    async def read_todos(ctx: RunContext[Any], **_: object) -> str:
        todos = sessions.state(ctx)[TODOS]
        if not todos:
            return "No todos in the list. Use write_todos to create some."
        from .rendering import render, summary

        return f"Current todos:\n{render(todos)}\n\nSummary: {summary(todos)}"

    async def write_todos(ctx: RunContext[Any], **arguments: Any) -> str:
        from .plan import BadTodos, read_todo_list
        from .rendering import summary

        state = sessions.state(ctx)
        before = state[TODOS]
        try:
            todos = read_todo_list(arguments, before, options)
        except BadTodos as error:
            raise ToolFailed(f"{error}. The list is unchanged.") from error
        state[TODOS] = todos
        if not todos:
            return f"The list is now empty.{_dropped_text(before, todos)}"
        return f"Updated {len(todos)} todo{'s' * (len(todos) != 1)}: {summary(todos)}.{_dropped_text(before, todos)}"

    return FunctionToolset(
        [
            _tool(read_todos, READ_DESCRIPTION, READ_SCHEMA, tags=["read"]),
            _tool(write_todos, WRITE_DESCRIPTION, WRITE_SCHEMA, tags=["read", "plan"]),
        ],
        id=id,
    )


def _tool(
    function: Callable[..., Awaitable[str]], description: str, schema: dict[str, Any], *, tags: list[str]
) -> Tool[Any]:
    """Create a tool with a terse schema for the model, and a validator that accepts any object.

    So every mistake inside the object reaches `read_todo_list`, whose errors say more and cost no retry.
    """
    tool = Tool[Any].from_schema(function, function.__name__, description, schema, takes_ctx=True)
    tool.function_schema.validator = SchemaValidator(core_schema.dict_schema(core_schema.str_schema()))
    tool.metadata = {"tags": tags}
    return tool


def create_todo_toolset(
    id: str | None = None, *, max_todos: int | None = None, todo_chars: int | None = None
) -> FunctionToolset[Any]:
    """Create the todo tools for any `pydantic_ai.Agent`.

    The list is in the deps, if these are `DeepAgentDeps`. With others, the toolset keeps a list for each conversation
    (`ctx.conversation_id`, which Pydantic AI keeps in the messages), in memory.

    Args:
        id: the toolset's id; `todo` by default.
        max_todos: see `TodoOptions`.
        todo_chars: see `TodoOptions`.
    """
    values = {"max_todos": max_todos, "todo_chars": todo_chars}
    options = TodoOptions.model_validate({key: value for key, value in values.items() if value is not None})
    return build_toolset(options, id=id or "todo")


def _dropped_text(before: Sequence[Todo], after: Sequence[Todo]) -> str:
    """Report dropped todos: a model that sends only its changes loses the rest."""
    from .rendering import one_line

    ids = {todo.id for todo in after}
    missing = [one_line(todo.content)[:60] for todo in before if todo.id not in ids and todo.status != "completed"]
    if not missing:
        return ""
    names = ", ".join(f'"{name}"' for name in missing[:NAMED])
    more = f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    return f" No longer in the list and not completed: {names}{more}."
