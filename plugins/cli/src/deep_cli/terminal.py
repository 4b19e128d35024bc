"""The screen of a task: progress and questions on stderr, line by line; works without a terminal and with NO_COLOR."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO, TypeAlias, cast

from deep_core import ApprovalEvent, CompactionEvent, RequestEvent, RunEvent, ToolEvent
from deep_core.plugin_api import visible

from .approval import Answer, Ask, Question, Refusal
from .asking import read_choice
from .failure import INTERRUPTED, Failure
from .interrupts import defer_interrupts
from .output import Lines, Part, say_text
from .report import Decision, RunReport
from .reporter import Reporter
from .screen import label, middle, one_line, redact
from .waiting import interruptible

__all__ = ["CallScreen", "TerminalReporter"]

LINES = 60
"""Lines of a question that it shows first, a third of them the last ones; `v` shows all."""
WIDTH = 1_000
"""Characters of a line that a question shows first."""
DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}
Line: TypeAlias = tuple[str, str]
"""A line of a question, and its style."""
TARGETS = ("command", "pattern", "path", "file_path", "url", "name", "description", "query")
"""Arguments that identify a call, best first."""
ANSWERS: Mapping[str, Answer] = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
BY = {
    "you": "by you",
    "always": "by you: always",
    "allow": "by setting: allow",
    "deny": "by setting: deny",
    "unanswered": "no terminal to ask on",
}


class TerminalReporter(Reporter):
    """Show a task as it runs.

    Args:
        answer: the stream for the agent's answer, before the summary; None for none.
        stream: the stream for the rest; None means stderr, so that stdout has the answer alone.
        replies: the stream with answers to questions; None means stdin.
    """

    def __init__(
        self, answer: TextIO | None = None, *, stream: TextIO | None = None, replies: TextIO | None = None
    ) -> None:
        self._answer = answer
        self._out = Lines(stream or sys.stderr)
        self._in = interruptible(replies or sys.stdin)
        self._denied: set[str] = set()
        """Calls whose denial was shown as a decision; the run's event would repeat it."""
        # A terminal with another encoding shows letters instead of question marks.
        fine = (self._out.encoding or "").lower().startswith("utf")
        self._marks = (
            {"ok": "✓", "bad": "✗", "again": "↻", "ask": "?", "send": "→", "cut": "≡"}
            if fine
            else {"ok": "+", "bad": "x", "again": "~", "ask": "?", "send": ">", "cut": "="}
        )

    # -- events --------------------------------------------------------------------------------------------------------

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        """Show task, model, backend and folder."""
        self._line(
            ("deep ", "bold"),
            one_line(task, 120),
            (f"\n     model {label(model)}, backend {label(backend)}, in {label(str(folder))}", "dim"),
        )
        self._wait("waiting for the model")

    def event(self, event: RunEvent) -> None:
        """Show one line for an event."""
        pad = "  " * (event.depth + 1)
        if isinstance(event, RequestEvent):
            self._line(
                f"{pad}{self._marks['send']} ",
                "request",
                (f"  {event.input_tokens:,} tokens in, {event.output_tokens:,} out", "dim"),
            )
            self._wait("working")
        elif isinstance(event, ToolEvent):
            self._tool(event, pad)
        elif isinstance(event, ApprovalEvent) and event.decision == "denied" and event.call_id not in self._denied:
            self._line(
                (f"{pad}{self._marks['bad']} {label(event.tool)} ", "red"),
                "denied by policy",
                (f"  {one_line(event.reason, 200)} [{label(event.plugin)}]", "dim"),
            )
        elif isinstance(event, CompactionEvent):
            self._line(
                f"{pad}{self._marks['cut']} ",
                f"history {event.messages_before} messages, now {event.messages_after}",
                (f"  [{label(event.plugin)}]", "dim"),
            )

    def _tool(self, event: ToolEvent, pad: str) -> None:
        about = target(event.args)
        if event.outcome == "started":
            self._wait(f"{event.tool} {about}".strip())
            return
        mark, style = {
            "success": (self._marks["ok"], "green"),
            "failed": (self._marks["bad"], "red"),
            "retried": (self._marks["again"], "yellow"),
        }[event.outcome]
        detail = f"  {one_line(redact(event.error), 160)}" if event.error else ""
        self._line(
            (f"{pad}{mark} ", style),
            (label(event.tool), "bold"),
            f" {about}" if about else "",
            (detail, style),
            (f"  [{label(event.plugin)}, {event.milliseconds:.0f} ms]", "dim"),
        )
        self._wait("waiting for the model")

    def decided(self, decision: Decision) -> None:
        """Show the decision about a call that needs approval."""
        mark, style, word = (
            (self._marks["ok"], "green", "approved") if decision.approved else (self._marks["bad"], "red", "denied")
        )
        if not decision.approved:
            self._denied.add(decision.call_id)
        about = target(decision.args)
        self._line(
            (f"  {mark} {word}: ", style),
            (label(decision.tool), "bold"),
            f" {about}" if about else "",
            (f"  [{label(decision.plugin)}, {BY[decision.by]}]", "dim"),
        )

    def note(self, text: str) -> None:
        """Show one dim line."""
        self._line((text, "dim"))

    def end(self, report: RunReport) -> None:
        """Show the answer, then the costs."""
        self._quiet()
        if self._answer is not None and report.output:
            say_text(report.output, self._answer)
        words = {
            "done": ("Done", "bold green"),
            "failed": ("Failed", "bold red"),
            "refused": ("Ended, with an approval denied,", "bold yellow"),
        }
        word, style = words[report.status]
        steps, requests = len(report.steps), report.requests
        self._line(
            (word, style),
            f" after {steps} {_plural('tool call', steps)} and {requests} {_plural('request', requests)}.",
        )
        if report.files:
            for number, change in enumerate(report.files[:40]):
                self._line(("Files    " if number == 0 else " " * 9, "dim"), f"{change.change:8} {label(change.path)}")
            if len(report.files) > 40:
                self._line(" " * 9, f"and {len(report.files) - 40} more")
        else:
            self._line(("Files    ", "dim"), "none changed")
        self._line(
            ("Tokens   ", "dim"),
            f"{report.input_tokens:,} in, {report.output_tokens:,} out",
            (" (all requests, as the provider counted)", "dim"),
        )
        if report.prompt is not None:
            parts = ", ".join(f"{plugin} {count:,}" for plugin, count in report.prompt.by_plugin.items() if count)
            self._line(
                ("Prompt   ", "dim"),
                f"{report.prompt.tokens:,} tokens a request",
                (f" (estimate; {parts}; `deep explain` has more)" if parts else " (estimate)", "dim"),
            )

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def ask(self) -> Ask | None:
        """The function that asks the user, None if the input is not a terminal."""
        return self._question if self._in.isatty() else None

    always_for = "in this task"
    """The scope of the answer `always`, as the question shows it."""

    def _question(self, question: Question) -> Answer:
        if question.choice is not None:
            self._quiet()
            forget_typed(self._in)
            about = f"{question.plugin}{_of_child(question)}"
            said = read_choice(question.choice, about, show=self._line, out=self._out, replies=self._in)
            return "closed" if said is None else said
        body = _body(question)
        with defer_interrupts():
            self._show_question(question, body)
        return self._reply(question, body)

    def _show_question(self, question: Question, body: Sequence[Line]) -> None:
        self._quiet()
        forget_typed(self._in)
        self._line(
            (f"  {self._marks['ask']} ", "yellow"),
            (label(question.tool), "bold"),
            " wants to run",
            (f"  [{label(question.plugin)}{_of_child(question)}]", "dim"),
            (f"  {middle(label(question.reason), 400)}" if question.reason else "", "dim"),
        )
        for key, value in (question.about or {}).items():
            self._line((f"    {label(key)}: {middle(label(str(value)), 400)}", "dim"))
        hidden = len(body) - LINES
        last = LINES // 3
        self._block([(middle(line, WIDTH, ": v shows them"), style) for line, style in body[: LINES - last]])
        if hidden > 0:
            self._line((f"    … {hidden} {_plural('line', hidden)} hidden: v shows them", "yellow"))
        rest = body[max(LINES - last, len(body) - last) :]
        self._block([(middle(line, WIDTH, ": v shows them"), style) for line, style in rest])

    def _reply(self, question: Question, body: Sequence[Line]) -> Answer:
        while True:
            try:
                with defer_interrupts():
                    self._out.line(
                        *("    run it? ", ("y", "bold"), "es, ", ("n", "bold"), "o, ", ("a", "bold"), "lways "),
                        (f"({label(question.tool)}, {self.always_for})", "dim"),
                        ", or say why not: ",
                        end="",
                    )
                line = self._in.readline()
            except KeyboardInterrupt:
                self._line("")  # start the next output on a new line
                raise
            if not line:
                self._line("")
                return "closed"
            answer = answer_of(line)
            if answer is not None:
                return answer
            if line.strip().lower() in ("v", "view"):
                self._block(body)

    def _block(self, lines: Iterable[Line]) -> None:
        for line, style in lines:
            self._line((f"    {line}", style))

    # -- the screen ----------------------------------------------------------------------------------------------------

    def _line(self, *parts: Part) -> None:
        self._out.line(*parts)

    def _wait(self, text: str) -> None:
        if self._out.is_terminal:
            self._out.show_status(one_line(text, max(20, self._out.width - 8)))

    def _quiet(self) -> None:
        self._out.stop_status()

    @contextmanager
    def open(self) -> Generator[TerminalReporter]:
        """Restore the terminal, however the task ends.

        Raises:
            Failure: Ctrl-C; exit code 130.
        """
        try:
            yield self
        except KeyboardInterrupt:
            text = "interrupted; changes by tools remain, the conversation is not stored"
            raise Failure(text, INTERRUPTED) from None
        finally:
            self._quiet()


class CallScreen(TerminalReporter):
    """The screen of `deep call`: the tool and its approval, without a model."""

    always_for = "in this call"

    def event(self, event: RunEvent) -> None:
        """Show one line for the tool."""
        if not isinstance(event, RequestEvent):
            super().event(event)
        if isinstance(event, ToolEvent) and event.outcome != "started":
            self._quiet()  # end the wait


def answer_of(line: str) -> Answer | None:
    """Parse a reply; None if it is not clear, so that the question is repeated.

    One word is one of the answers. More words are a no with a reason, unless they begin with another answer.
    """
    word, _, rest = line.strip().partition(" ")
    answer = ANSWERS.get(word.lower().rstrip(",.:;!"))
    if not rest.strip():
        return answer
    if answer is not None and answer != "no":
        return None
    # `n use tabs` and `no, use tabs` are an answer and its reason; in `no new files` the `no` belongs to the reason.
    return Refusal(visible(rest.strip() if answer == "no" and word.lower() != "no" else line.strip()))


def forget_typed(stream: TextIO) -> None:
    """Drop text typed before the question appeared: it cannot be its answer."""
    if os.name == "posix" and stream.isatty():
        import termios

        termios.tcflush(stream, termios.TCIFLUSH)


def _of_child(question: Question) -> str:
    return f", subagent {label(question.child)}" if question.child else ""


def target(args: Mapping[str, Any]) -> str:
    """What a call is about, in a few words: its path, its command."""
    for key in TARGETS:
        if isinstance(args.get(key), str):
            text = middle(" ".join(visible(redact(args[key])).split()), 80)
            return f"$ {text}" if key == "command" else text
    return one_line(", ".join(f"{key}={_short(value)}" for key, value in args.items()), 60)


def _short(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        count = len(cast("list[Any]", value))
        return f"{count} {_plural('item', count)}"
    return repr(value)


def _body(question: Question) -> list[Line]:
    """The whole call, line by line: every argument that the diff does not show, then the diff."""
    lines: list[Line] = []
    for key, value in question.args.items():
        if key not in question.pictured:
            first, *rest = visible(_value(value)).split("\n")
            # A mark at each further line: text must not look like another argument.
            lines += [(f"{label(key)}: {first}", ""), *((f"  | {line}", "") for line in rest)]
    if question.diff is not None:
        diff = question.diff.removesuffix("\n") or "(nothing would change)"
        lines += [(line, DIFF_STYLES.get(line[:1], "")) for line in visible(diff).split("\n")]
    return lines or [("(no arguments)", "")]


def _value(value: object) -> str:
    if isinstance(value, list | dict):
        return json.dumps(value, indent=2, ensure_ascii=False, default=repr)
    return value if isinstance(value, str) else repr(value)


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
