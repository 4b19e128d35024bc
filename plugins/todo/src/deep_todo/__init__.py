"""A todo list for deep agents: read_todos, write_todos, the slot of the list, and the section that shows it.

Importing this module loads neither pydantic nor Pydantic AI: names load on first use, hooks import inside.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from deep_core import hookimpl, lazy_exports

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai_todo.types import Todo

    from deep_core import AgentContext, PromptSection, StateSlot

    from .options import TodoOptions
    from .slot import TODOS
    from .toolset import create_todo_toolset

__all__ = ["TODOS", "Todo", "TodoOptions", "create_todo_toolset"]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "options": ["TodoOptions"],
        "slot": ["TODOS"],
        "todo_type": ["Todo"],
        "toolset": ["create_todo_toolset"],
    },
)


@hookimpl
def deep_options() -> type[TodoOptions]:
    """Return the options of this plugin."""
    from .options import TodoOptions

    return TodoOptions


@hookimpl
def deep_state() -> list[StateSlot[Any]]:
    """Add the slot with the session's list."""
    from .slot import TODOS

    return [TODOS]


@hookimpl
def deep_toolsets(context: AgentContext) -> list[AbstractToolset[Any]]:
    """Add read_todos and write_todos."""
    from .options import TodoOptions
    from .toolset import build_toolset

    return [build_toolset(context.options(TodoOptions))]


@hookimpl
def deep_prompt_sections(context: AgentContext) -> list[PromptSection]:
    """Add the present list; nothing while it is empty."""
    from deep_core import PromptSection

    from .options import TodoOptions
    from .slot import TODOS

    limit = context.options(TodoOptions).section_chars

    def state(ctx: RunContext[Any]) -> str | None:
        todos = ctx.deps.state[TODOS]
        if not todos:
            return None
        from .rendering import state_text

        return state_text(todos, limit)

    # Without write_todos the list never changes, and the model must not be asked to update it.
    return [PromptSection.live("state", state, needs=["write_todos"])]
