"""The slot of a session's list, and the statuses of a todo."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deep_core import StateSlot

if TYPE_CHECKING:
    from pydantic_ai_todo.types import Todo

__all__ = ["STATUSES", "TODOS"]

STATUSES = ("pending", "in_progress", "completed", "blocked")
"""The statuses of `pydantic_ai_todo.Todo`."""


def _type() -> type[list[Todo]]:
    from .todo_type import load_todo

    return list[load_todo()]


def _empty() -> list[Todo]:
    return []


TODOS: StateSlot[list[Todo]] = StateSlot(name="todos", type=_type, default=_empty, child="fresh")
"""The slot: the session's todos, in order. A subagent starts with an empty list."""
