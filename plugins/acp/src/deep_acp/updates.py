"""Translate the events of a session into updates of the protocol."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from acp.helpers import (
    plan_entry,
    start_tool_call,
    text_block,
    tool_content,
    update_agent_message_text,
    update_agent_thought_text,
    update_plan,
    update_tool_call,
    update_user_message_text,
)
from acp.schema import Usage, UsageUpdate
from deep_sessions import exit_code

from deep_core.plugin_api import call_ids

from .changes import Change, Todos
from .tools import content_of_change, content_of_text, kind_of, locations_of, raw_of, read_args, title_of_call

if TYPE_CHECKING:
    from deep_sessions import Event, Question


__all__ = ["CallView", "Translator", "plan_of"]

FAILED = ("failed", "denied", "interrupted", "unknown", "retried")


@dataclass
class CallView:
    """A call as the editor has it.

    Attributes:
        id: its id for the editor, unique in the session.
        args: its arguments, as far as they are known.
        is_over: whether it has ended.
        change: what it changed, or would change.
        question: the path of the question that is about it; "" for none.
    """

    id: str
    tool: str
    args: Mapping[str, Any]
    is_over: bool = False
    change: Change | None = None
    question: str = ""


@dataclass
class Tokens:
    """What the requests of a turn used."""

    fields: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, event: Any) -> None:
        """Add a request."""
        for name in ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens"):
            self.fields[name] = self.fields.get(name, 0) + getattr(event, name)

    def usage(self) -> Usage | None:
        """Return the sum; None without a request."""
        if not self.fields:
            return None
        sent, written = self.fields["input_tokens"], self.fields["output_tokens"]
        return Usage(
            input_tokens=sent,
            output_tokens=written,
            total_tokens=sent + written,
            cached_read_tokens=self.fields["cache_read_tokens"],
            cached_write_tokens=self.fields["cache_write_tokens"],
        )


class Translator:
    """The editor's view of one session.

    Args:
        folder: the session's folder.
        tags: returns the tags of a tool, by its name.
        window: returns the tokens that fit into the model's window; None if unknown.
    """

    def __init__(self, folder: str, tags: Callable[[str], tuple[str, ...]], window: Callable[[], int | None]) -> None:
        self._folder = folder
        self._tags = tags
        self._window = window
        self._calls: dict[tuple[str, str], CallView] = {}
        self._ids: set[str] = set()
        self._written = ""
        """What the editor has of the message that the model is writing."""
        self._effects: dict[str, list[Change | Todos]] = {}
        """What calls changed, by their ids, until their end is told."""
        self.own: set[str] = set()
        """The runs and messages that came from the editor, which shows them by itself."""
        self.tokens = Tokens()

    def translate(self, event: Event) -> Iterator[Any]:
        """Yield what an event changes for the editor. Plans are not in events: see `plan_of`."""
        handler = getattr(self, f"_{event.kind}", None)
        if handler is not None:
            yield from handler(event)

    def note(self, call_id: str, effect: Change | Todos) -> None:
        """Take up what a call changed."""
        self._effects.setdefault(call_id, []).append(effect)

    def call_of(self, question: Question) -> CallView:
        """Return the call that a question is about, with all of its arguments."""
        above, call_id = call_ids(question.path)[:-1], question.call_id
        found: list[CallView] = []
        for (path, known), view in reversed(self._calls.items()):
            # A subagent's call may have the id of its caller's, and of another subagent's.
            is_as_deep = (path.count("/") + 1 if path else 0) == len(above)
            is_free = view.question in ("", question.path) and not view.is_over
            if known == call_id and is_as_deep and view.tool == question.tool and is_free:
                found.append(view)
        same = (view for view in found if view.args == question.args)
        view = next(same, None) or (found or [self._begin("/".join(above), call_id, question.tool, question.args)])[0]
        view.question, view.args = question.path, question.args
        return view

    def _begin(self, path: str, call_id: str, tool: str, args: Mapping[str, Any]) -> CallView:
        # Ids of calls are unique for a provider's response, not for a session.
        shown, count = call_id, 1
        while shown in self._ids:
            shown, count = f"{call_id}#{count + 1}", count + 1
        self._ids.add(shown)
        view = CallView(shown, tool, args)
        self._calls[path, call_id] = view
        return view

    # -- events --------------------------------------------------------------------------------------------------------

    def _run_started(self, event: Any) -> Iterator[Any]:
        self._written = ""
        if event.attempt == 1 and event.text and self.own.isdisjoint((event.run_id, event.message_id)):
            yield update_user_message_text(event.text)

    def _text_added(self, event: Any) -> Iterator[Any]:
        self._written += event.text
        yield update_agent_message_text(event.text)

    def _thinking_added(self, event: Any) -> Iterator[Any]:
        yield update_agent_thought_text(event.text)

    def _request_retried(self, event: Any) -> Iterator[Any]:
        if event.depth:
            return
        self._written = ""  # what was said of the answer stays on the screen; the next one begins again below
        yield update_agent_message_text(f"\n\n({event.words})\n\n")

    def _message_added(self, event: Any) -> Iterator[Any]:
        if event.depth:
            return  # what a subagent says is in the result of its call
        if event.role == "user":
            yield update_user_message_text(event.text)
            return
        # Deltas stay in memory briefly: a late client receives the whole message.
        missing = event.text.removeprefix(self._written)
        self._written = ""
        if missing:
            yield update_agent_message_text(missing)

    def _usage_added(self, event: Any) -> Iterator[Any]:
        self.tokens.add(event)
        window = self._window()
        if not event.depth and window is not None:
            yield UsageUpdate(session_update="usage_update", used=event.input_tokens + event.output_tokens, size=window)

    def _tool_started(self, event: Any) -> Iterator[Any]:
        known = self._calls.get((event.path, event.call_id))
        if known is not None and not known.is_over:
            return  # a subagent that waited tells its calls again
        args, is_whole = read_args(event.args)
        view = self._begin(event.path, event.call_id, event.tool, args)
        yield start_tool_call(
            view.id,
            title_of_call(event.tool, args, event.agent),
            kind=kind_of(event.tool, event.plugin, self._tags(event.tool), args),
            status="in_progress",
            locations=locations_of(args, self._folder),
            raw_input=raw_of(args) if is_whole else None,
        )

    def _tool_ended(self, event: Any) -> Iterator[Any]:
        view = self._calls.get((event.path, event.call_id))
        if view is None or view.is_over:
            return
        view.is_over = True
        effects = self._effects.pop(event.call_id, [])
        failed = event.outcome in FAILED or exit_code(view.args, event.result) is not None
        content: list[Any] = [content_of_change(effect) for effect in effects if isinstance(effect, Change)]
        if event.result and (failed or not content):
            content.append(content_of_text(event.result))
        yield update_tool_call(view.id, status="failed" if failed else "completed", content=content or None)
        for effect in effects:
            if isinstance(effect, Todos):
                yield _plan(effect.entries)

    def _run_ended(self, event: Any) -> Iterator[Any]:
        yield from self.close_calls("Stopped." if event.status == "aborted" else "The run ended before this call.")
        if event.words:
            yield update_agent_message_text(f"\n\nThis answer is not whole: {event.words}\n")

    def _run_interrupted(self, event: Any) -> Iterator[Any]:
        yield from self.close_calls("The run was interrupted. This call may have had an effect.")

    def close_calls(self, why: str) -> Iterator[Any]:
        """End the calls that have no end."""
        for view in self._calls.values():
            if not view.is_over:
                view.is_over = True
                yield update_tool_call(view.id, status="failed", content=[tool_content(text_block(why))])


def plan_of(slots: Mapping[str, Any]) -> Any:
    """Return the session's todos as a plan, from its slots as JSON; None if there are none."""
    stored: Mapping[str, Any] = slots.get("todos", {})
    todos: Sequence[Mapping[str, Any]] = stored.get("data") or ()
    return _plan([(str(todo.get("content", "")), str(todo.get("status", ""))) for todo in todos]) if todos else None


def _plan(entries: Iterable[tuple[str, str]]) -> Any:
    known: Any = ("pending", "in_progress", "completed")
    return update_plan(
        [plan_entry(content, status=status if status in known else "pending") for content, status in entries]  # pyright: ignore[reportArgumentType]
    )
