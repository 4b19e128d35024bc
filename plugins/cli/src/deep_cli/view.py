"""What a person sees of a run: each call, plan and cost as lines with styles. It prints nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from deep_sessions import exit_code as exit_code_of
from deep_sessions import split_exit_code

from deep_core.plugin_api import visible

from .terminal.screen import content_line, label, middle, one_line, redact

if TYPE_CHECKING:
    from .run.progress import Spent
    from .run.report import Step
    from .terminal.output import Part

__all__ = ["DIFF_STYLES", "Line", "Marks", "View", "diff_line", "exit_code", "plural", "target"]

Line: TypeAlias = "tuple[Part, ...]"
"""One line: texts, each with its style."""
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
TARGETS = ("command", "pattern", "path", "file_path", "url", "name", "description", "query")
"""Arguments that identify a call, best first."""
OUTPUT, DIFF, PLAN = 5, 12, 20
"""Lines shown of a command's output, a change to a file, and a plan."""
MORE = 10
"""How often as many lines `--verbose` shows."""
WIDTH = 400
"""Characters shown of a line of output."""


@dataclass(frozen=True)
class Marks:
    """One character before each line."""

    ok: str = "✓"
    bad: str = "✗"
    again: str = "↻"
    stopped: str = "■"
    ask: str = "?"
    said: str = "·"
    send: str = "→"
    cut: str = "≡"
    task: str = "▸"
    bar: str = "│"
    done: str = "☑"
    doing: str = "◐"
    todo: str = "☐"

    @classmethod
    def of(cls, encoding: str | None) -> Marks:
        """Return the marks for a terminal's encoding: letters where it is not Unicode."""
        if (encoding or "").lower().startswith("utf"):
            return cls()
        return cls("+", "x", "~", "!", "?", "-", ">", "=", ">", "|", "[x]", "[-]", "[ ]")


class View:
    """Turns what happens into lines.

    Args:
        marks: the marks to use.
        verbose: show more of each output, and each request.
        quiet: show only what failed.
    """

    def __init__(self, marks: Marks, *, verbose: bool = False, quiet: bool = False) -> None:
        self.marks = marks
        self.verbose = verbose
        self.quiet = quiet
        self.shown: set[str] = set()
        """Ids of calls whose diff was shown already, with a question."""
        self.spent: Spent | None = None
        self._running: dict[tuple[str, ...], Step] = {}
        self._began = time.monotonic()

    def restart(self) -> None:
        """A turn begins: its time starts at 0."""
        self._began = time.monotonic()
        self._running.clear()

    def stop(self) -> None:
        """The user stops the run: what still runs is no news."""
        self._running.clear()

    # -- calls ---------------------------------------------------------------------------------------------------------

    def started(self, step: Step) -> list[Line]:
        """Return the lines for a call that starts: of a task, what it is."""
        self._running[(*step.task, step.call_id)] = step
        if self.quiet or not _is_task(step):
            return []
        kind = step.args.get("subagent_type")
        about = one_line(str(step.args["description"]), 200)
        return [
            (
                *self._before(step),
                (f"{self.marks.task} {label(step.tool)} ", "bold"),
                about,
                (f"  [{label(str(kind))}]" if kind else "", "dim"),
            )
        ]

    def waits(self, step: Step) -> None:
        """Forget a call that waits for approval: it starts again."""
        self._running.pop((*step.task, step.call_id), None)

    def ended(self, step: Step) -> list[Line]:
        """Return the lines for a call that ended: its mark, then its output, its change or the plan."""
        self.waits(step)
        code = exit_code(step)
        failed = step.outcome == "failed" or bool(code)
        if self.quiet and not failed:
            return []
        mark, style = (
            (self.marks.bad, "red")
            if failed
            else {
                "retried": (self.marks.again, "yellow"),
                "interrupted": (self.marks.stopped, "yellow"),
            }.get(step.outcome, (self.marks.ok, "green"))
        )
        about = "" if _todos(step) else target(step.args)
        detail = f"  exit code {code}" if code else ""
        if step.error:
            detail = f"  {one_line(redact(step.error), 160)}"
        elif step.outcome == "interrupted":
            detail = "  stopped"
        head: Line = (
            *self._before(step),
            (f"{mark} ", style),
            (label(step.tool), "bold"),
            f" {about}" if about else "",
            (detail, style),
            (_counts(step.diff), "dim"),
            (f"  [{label(step.plugin)}, {_duration(step.milliseconds / 1000)}]" if step.plugin else "", "dim"),
        )
        return [head, *((*self._before(step), "  ", *line) for line in self._body(step))]

    def _before(self, step: Step) -> Line:
        """Return what tells the calls of one subagent from those of another: its task."""
        if not step.task:
            return ("  ",)
        return ("  ", (f"{self.marks.bar} {one_line(' > '.join(step.task), 30)} ", "cyan"))

    def _body(self, step: Step) -> list[Line]:
        if step.outcome != "success":
            return []
        todos = _todos(step)
        if todos is not None:
            return _plan(todos, self.marks)
        if isinstance(step.args.get("command"), str):
            return self._output(step.result)
        if step.diff and step.call_id not in self.shown:
            lines = step.diff.split("\n")[2:]  # without the two lines that name the file
            return self._cut([diff_line(line) for line in lines if line], DIFF, "/diff or -v shows all")
        return []

    def _output(self, result: str) -> list[Line]:
        """Return the last lines of a command's output."""
        lines = redact(split_exit_code(result)[1]).rstrip("\n").split("\n")
        shown: list[Line] = [
            ((f"{self.marks.bar} {middle(content_line(line), WIDTH)}", "dim"),) for line in lines if line
        ]
        most = OUTPUT * (MORE if self.verbose else 1)
        hidden = len(shown) - most
        if hidden > 0:
            shown = [((f"… {hidden} {plural('line', hidden)} before", "dim"),), *shown[-most:]]
        return shown

    def _cut(self, lines: list[Line], most: int, hint: str) -> list[Line]:
        most *= MORE if self.verbose else 1
        hidden = len(lines) - most
        if hidden <= 1:
            return lines
        return [*lines[:most], ((f"… {hidden} more lines: {hint}", "dim"),)]

    # -- the status line -----------------------------------------------------------------------------------------------

    def status(self, doing: str) -> str:
        """Return the status line: what happens, the time, tokens, cost, and how full the context is.

        Args:
            doing: what happens while no call runs.
        """
        running = [*self._running.values()]
        inner = [step for step in running if not _is_task(step)] or running
        if inner:
            first = inner[0]
            doing = f"{label(first.tool)} {target(first.args)}".strip()
            if len(inner) > 1:
                doing += f" and {len(inner) - 1} more"
        return self.join(one_line(doing, 60), self.duration, *self.costs())

    def join(self, *parts: str) -> str:
        """Return the parts on one line."""
        return f" {self.marks.said} ".join(parts)

    def costs(self) -> list[str]:
        """Return tokens, cost and context so far."""
        spent = self.spent
        if spent is None or not spent.requests:
            return []
        parts = [f"{_count(spent.input_tokens)} tokens in, {_count(spent.output_tokens)} out"]
        if spent.cost is not None:
            parts.append(f"${spent.cost:.4f}" if spent.cost < 1 else f"${spent.cost:.2f}")
        if spent.context:
            share = f" of {_count(spent.window)} ({spent.context * 100 // spent.window}%)" if spent.window else ""
            parts.append(f"context {_count(spent.context)}{share}")
        return parts

    @property
    def duration(self) -> str:
        """How long the turn has taken."""
        return _duration(time.monotonic() - self._began)


def exit_code(step: Step) -> int | None:
    """Return the exit code of a command that failed; None for any other call."""
    return exit_code_of(step.args, step.result) if step.outcome == "success" else None


def target(args: Mapping[str, Any]) -> str:
    """What a call is about, in a few words: its path, its command."""
    for key in TARGETS:
        if isinstance(args.get(key), str):
            text = middle(" ".join(visible(redact(args[key])).split()), 80)
            return f"$ {text}" if key == "command" else text
    return one_line(", ".join(f"{key}={_short(value)}" for key, value in args.items()), 60)


def diff_line(line: str) -> Line:
    """Return a line of a diff in its color."""
    return ((content_line(line), DIFF_STYLES.get(line[:1], "dim")),)


def plural(word: str, count: int) -> str:
    """Return the word for a count."""
    return word if count == 1 else f"{word}s"


def _is_task(step: Step) -> bool:
    return step.tool.endswith("task") and isinstance(step.args.get("description"), str)


def _todos(step: Step) -> Sequence[Mapping[str, Any]] | None:
    """Return the plan that a call writes, whatever plugin has the tool; None for any other call."""
    todos: Any = step.args.get("todos")
    if isinstance(todos, str):
        try:
            todos = json.loads(todos)
        except ValueError:
            return None
    if not isinstance(todos, list):
        return None
    items = cast("list[Any]", todos)
    is_plan = all(isinstance(item, dict) and isinstance(cast("Any", item).get("content"), str) for item in items)
    return cast("list[Mapping[str, Any]]", items) if items and is_plan else None


def _plan(todos: Iterable[Mapping[str, Any]], marks: Marks) -> list[Line]:
    lines: list[Line] = []
    for todo in todos:
        text = one_line(str(todo["content"]), 200)
        match todo.get("status"):
            case "completed":
                lines.append(((f"{marks.done} {text}", "dim"),))
            case "in_progress":
                lines.append(((f"{marks.doing} {text}", "bold"),))
            case "pending" | None:
                lines.append((f"{marks.todo} {text}",))
            case other:
                lines.append((f"{marks.todo} {text}", (f" ({label(str(other))})", "yellow")))
    hidden = len(lines) - PLAN
    return lines if hidden <= 1 else [*lines[:PLAN], ((f"… and {hidden} more", "dim"),)]


def _counts(diff: str | None) -> str:
    if not diff:
        return ""
    lines = diff.split("\n")[2:]
    return f"  +{sum(line[:1] == '+' for line in lines)} -{sum(line[:1] == '-' for line in lines)}"


def _short(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        count = len(cast("list[Any]", value))
        return f"{count} {plural('item', count)}"
    return repr(value)


def _count(tokens: int) -> str:
    if tokens < 10_000:
        return f"{tokens:,}"
    return f"{tokens / 1000:.0f}k" if tokens < 1_000_000 else f"{tokens / 1_000_000:.1f}M"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds // 60:.0f} min {seconds % 60:02.0f} s"
