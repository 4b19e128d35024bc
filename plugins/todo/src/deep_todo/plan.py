"""Read the model's list leniently, and reject errors with a message that the model can use."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from .options import TodoOptions
from .rendering import one_line
from .slot import STATUSES
from .todo_type import load_todo

if TYPE_CHECKING:
    from pydantic_ai_todo.types import Todo

__all__ = ["BadTodos", "read_todo_list"]

MAX_ERRORS = 5
EXCERPT = 60
"""Maximum characters of a todo in an error."""


class BadTodos(ValueError):
    """The list is not valid; the message says which todo and why."""


def read_todo_list(arguments: Mapping[str, Any], before: Sequence[Todo], options: TodoOptions) -> list[Todo]:
    """Read the new list.

    Accepts a list sent as JSON text, and a bare text as a pending todo. A todo with an earlier text keeps its
    id, its parent and its dependencies, which an application may have set. Several may be in progress:
    subagents work in parallel.

    Raises:
        BadTodos: not a list, too many todos, or one without content, too long, or of an unknown status.
    """
    if "todos" not in arguments:
        raise BadTodos('todos is missing: give the whole list, {"todos": [{"content": "…", "status": "pending"}]}')
    items = _as_list(arguments["todos"])
    if len(items) > options.max_todos:
        raise BadTodos(f"{len(items)} todos are too many, the limit is {options.max_todos}: write fewer, larger steps")
    earlier: dict[str, list[Todo]] = {}
    for todo in before:
        earlier.setdefault(one_line(todo.content), []).append(todo)
    todos: list[Todo] = []
    errors: list[str] = []
    for number, item in enumerate(items, 1):
        try:
            todos.append(_read_todo(item, earlier, options))
        except BadTodos as error:
            errors.append(f"todo {number} {error}")
    if errors:
        more = f"; and {len(errors) - MAX_ERRORS} more" if len(errors) > MAX_ERRORS else ""
        raise BadTodos("; ".join(errors[:MAX_ERRORS]) + more)
    return todos


def _as_list(value: object) -> list[Any]:
    if isinstance(value, str):
        # Some models send nested values as JSON text.
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):  # RecursionError: thousands of brackets
            raise BadTodos("todos is a text that is not JSON: give a list of objects") from None
    if not isinstance(value, list):
        raise BadTodos(f"todos is {_kind(value)}: give a list of objects with content and status")
    return cast("list[Any]", value)


def _read_todo(item: object, earlier: Mapping[str, list[Todo]], options: TodoOptions) -> Todo:
    if isinstance(item, str):
        item = {"content": item}
    if not isinstance(item, dict):
        raise BadTodos(f"is {_kind(item)}: give an object with content and status")
    fields = cast("dict[str, object]", item)
    content = _text(fields, "content", options)
    if not content:
        raise BadTodos("has no content: say what is to be done")
    status = fields.get("status", "pending")
    clean = status.strip().lower().replace("-", "_").replace(" ", "_") if isinstance(status, str) else status
    if clean not in STATUSES:
        raise BadTodos(f'("{content[:EXCERPT]}") has the status {str(status)[:EXCERPT]!r}: use {", ".join(STATUSES)}')
    active = _text(fields, "active_form", options)
    same = earlier.get(content)
    if same:
        old = same.pop(0)  # two with the same text keep their order
        return old.model_copy(update={"status": clean, "active_form": active or old.active_form})
    return load_todo()(content=content, status=cast("Any", clean), active_form=active or content)


def _text(fields: Mapping[str, object], key: str, options: TodoOptions) -> str:
    value = fields.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise BadTodos(f"has {_kind(value)} as {key}: give a text")
    text = one_line(value)
    if len(text) > options.todo_chars:
        raise BadTodos(
            f'("{text[:EXCERPT]}…") has {len(text)} characters of {key}: say it in at most {options.todo_chars}'
        )
    return text


def _kind(value: object) -> str:
    names: dict[type, str] = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
