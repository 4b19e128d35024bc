"""Format the list: for `read_todos`, and for the section that is sent again when it changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic_ai_todo.types import Todo

__all__ = ["one_line", "render", "state_text", "summary"]

MARKS = {"pending": "[ ]", "in_progress": "[*]", "completed": "[x]", "blocked": "[!]"}
LINE_CHARS = 160
"""Maximum characters of one todo in the section; `read_todos` shows the rest."""
TAIL_CHARS = 40
"""Room for the line about omitted todos: `and 1000 more: read_todos has them`."""


def one_line(text: str) -> str:
    """Put text on one line, with single blanks and only printable characters."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def summary(todos: Sequence[Todo]) -> str:
    """Count: `1 completed, 1 in progress, 2 pending`, and blocked ones if any."""
    count = Counter(todo.status for todo in todos)
    parts = [f"{count['completed']} completed", f"{count['in_progress']} in progress", f"{count['pending']} pending"]
    return ", ".join([*parts, f"{count['blocked']} blocked"] if count["blocked"] else parts)


def render(todos: Sequence[Todo]) -> str:
    """Format the whole list, one numbered line per todo."""
    return "\n".join(_lines(todos))


def state_text(todos: Sequence[Todo], limit: int) -> str | None:
    """Format the list for the conversation, in at most `limit` characters; None if it is empty.

    Omits the least important first: completed todos, then the end of the list.
    Numbers are those of the whole list.
    """
    if not todos:
        return None
    head = f"Todos: {summary(todos)}"
    lines = _lines(todos, LINE_CHARS)
    if len(head) + sum(map(len, lines)) + len(lines) <= limit:
        return "\n".join([head, *lines])
    still_open = [line for line, todo in zip(lines, todos, strict=True) if todo.status != "completed"]
    room = limit - len(head) - 1 - TAIL_CHARS
    visible: list[str] = []
    for line in still_open:
        if len(line) + 1 > room:
            break
        visible.append(line)
        room -= len(line) + 1
    left = len(still_open) - len(visible)
    tail = [f"and {left} more: read_todos has them"] if left else []
    return "\n".join([head, *visible, *tail])


def _lines(todos: Sequence[Todo], most: int = 0) -> list[str]:
    return [f"{number}. {MARKS[todo.status]} {_cut(todo.content, most)}" for number, todo in enumerate(todos, 1)]


def _cut(text: str, most: int) -> str:
    # The application may fill the slot too, so texts may exceed the limits of write_todos.
    text = one_line(text)
    return f"{text[: most - 1]}…" if most and len(text) > most else text
