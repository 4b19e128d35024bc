"""The screen of a task: progress and questions on stderr, line by line; it needs no terminal and obeys NO_COLOR."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

import click
from rich.console import Console
from rich.text import Text

from deep_core import ApprovalEvent, CompactionEvent, RequestEvent, RunEvent, ToolEvent

from .approval import Answer, Ask, Question, Refusal
from .failure import INTERRUPTED, Failure
from .interrupts import held
from .report import Decision, RunReport
from .reporter import Reporter
from .screen import one_line, plain, redact
from .waiting import interruptible

if TYPE_CHECKING:
    from rich.status import Status

__all__ = ["CallScreen", "TerminalReporter"]

DIFF_LINES = 60
"""Lines of a diff or an argument that a question shows at once; `v` shows the rest."""
TARGETS = ("command", "pattern", "path", "file_path", "url", "name", "description", "query")
"""Arguments that tell what a call is about, the best first."""
ANSWERS: Mapping[str, Answer] = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
BY = {
    "you": "by you",
    "always": "as you said: always",
    "allow": "nobody was asked: approvals are allowed here",
    "deny": "nobody was asked: approvals are denied here",
    "nobody": "there is nobody to ask: no terminal",
}


class TerminalReporter(Reporter):
    """Shows a task as it goes on.

    Args:
        answer: where the agent's answer goes, before the summary; None means nowhere.
        stream: where all else goes; None means stderr, so that stdout has the answer alone.
        replies: where answers to questions come from; None means stdin.
    """

    def __init__(
        self, answer: TextIO | None = None, *, stream: TextIO | None = None, replies: TextIO | None = None
    ) -> None:
        self._answer = answer
        self._out = Console(file=stream or sys.stderr, highlight=False, soft_wrap=True, emoji=False)
        self._in = interruptible(replies or sys.stdin)
        self._status: Status | None = None
        self._denied: set[str] = set()
        """Calls whose denial was told as a decision; what the run tells of them is no news."""
        # A terminal of another encoding shows letters instead of question marks.
        fine = (self._out.encoding or "").lower().startswith("utf")
        self._marks = (
            {"ok": "✓", "bad": "✗", "again": "↻", "ask": "?", "send": "→", "cut": "≡"}
            if fine
            else {"ok": "+", "bad": "x", "again": "~", "ask": "?", "send": ">", "cut": "="}
        )

    # -- what is heard -------------------------------------------------------------------------------------------

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        """Say what works on what."""
        self._line(
            ("deep ", "bold"),
            one_line(task, 120),
            (plain(f"\n     model {model}, backend {backend}, in {folder}"), "dim"),
        )
        self._wait("waiting for the model")

    def event(self, event: RunEvent) -> None:
        """One line for each thing that happened."""
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
                (f"{pad}{self._marks['bad']} {event.tool} ", "red"),
                "denied by policy",
                (f"  {one_line(event.reason, 200)} [{event.plugin}]", "dim"),
            )
        elif isinstance(event, CompactionEvent):
            self._line(
                f"{pad}{self._marks['cut']} ",
                f"history {event.messages_before} messages, now {event.messages_after}",
                (f"  [{event.plugin}]", "dim"),
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
        said = f"  {one_line(redact(event.error), 160)}" if event.error else ""
        self._line(
            (f"{pad}{mark} ", style),
            (event.tool, "bold"),
            f" {about}" if about else "",
            (said, style),
            (f"  [{event.plugin}, {event.milliseconds:.0f} ms]", "dim"),
        )
        self._wait("waiting for the model")

    def decided(self, decision: Decision) -> None:
        """Say what became of a call that needs approval."""
        mark, style, word = (
            (self._marks["ok"], "green", "approved") if decision.approved else (self._marks["bad"], "red", "denied")
        )
        if not decision.approved:
            self._denied.add(decision.call_id)
        about = target(decision.args)
        self._line(
            (f"  {mark} {word}: ", style),
            (decision.tool, "bold"),
            f" {about}" if about else "",
            (f"  [{decision.plugin}, {BY[decision.by]}]", "dim"),
        )

    def note(self, text: str) -> None:
        """One dim line."""
        self._line((plain(text), "dim"))

    def end(self, report: RunReport) -> None:
        """The answer, then what it took."""
        self._quiet()
        if self._answer is not None and report.output:
            # A file gets the answer as it is; a terminal would obey what is in it.
            click.echo(plain(report.output) if self._answer.isatty() else report.output, file=self._answer)
        words = {
            "done": ("Done", "bold green"),
            "failed": ("Failed", "bold red"),
            "refused": ("Ended, with an approval refused,", "bold yellow"),
        }
        word, style = words[report.status]
        steps, requests = len(report.steps), report.requests
        self._line(
            (word, style),
            f" after {steps} {_plural('tool call', steps)} and {requests} {_plural('request', requests)}.",
        )
        if report.files:
            for number, change in enumerate(report.files[:40]):
                self._line(("Files    " if number == 0 else " " * 9, "dim"), f"{change.change:8} {plain(change.path)}")
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

    # -- what is asked -------------------------------------------------------------------------------------------

    @property
    def ask(self) -> Ask | None:
        """Asks a person, None where the input is no terminal."""
        return self._question if self._in.isatty() else None

    always_for = "in this task"
    """How far the answer `always` reaches, as the question says it."""

    def _question(self, question: Question) -> Answer:
        body = _body(question)
        with held():
            self._show_question(question, body)
        return self._reply(question, body)

    def _show_question(self, question: Question, body: list[str]) -> None:
        self._quiet()
        forget_typed(self._in)
        self._line(
            (f"  {self._marks['ask']} ", "yellow"),
            (question.tool, "bold"),
            " wants to run",
            (f"  [{question.plugin}{_of_child(question)}]", "dim"),
            (f"  {one_line(question.reason, 200)}" if question.reason else "", "dim"),
        )
        for key, value in (question.about or {}).items():
            self._line((f"    {plain(key)}: {one_line(str(value), 200)}", "dim"))
        self._block(body[:DIFF_LINES])
        hidden = len(body) - DIFF_LINES
        if hidden > 0:
            self._line((f"    … {hidden} more {_plural('line', hidden)}: v shows them", "yellow"))

    def _reply(self, question: Question, body: list[str]) -> Answer:
        while True:
            try:
                with held():
                    self._out.print(
                        Text.assemble(
                            *("    run it? ", ("y", "bold"), "es, ", ("n", "bold"), "o, ", ("a", "bold"), "lways "),
                            (f"({question.tool}, {self.always_for})", "dim"),
                            ", or say why not: ",
                        ),
                        end="",
                    )
                line = self._in.readline()
            except KeyboardInterrupt:
                self._line("")  # what comes next is not to stand behind the question
                raise
            if not line:
                self._line("")
                return "closed"
            answer = answer_of(line)
            if answer is not None:
                return answer
            if line.strip().lower() in ("v", "view"):
                self._block(body)

    def _block(self, lines: list[str]) -> None:
        for line in lines:
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
            self._line((f"    {line}", style))

    # -- the screen ----------------------------------------------------------------------------------------------

    def _line(self, *parts: str | tuple[str, str]) -> None:
        # Never markup: what tools and models write has brackets of its own.
        self._out.print(Text.assemble(*parts))

    def _wait(self, text: str) -> None:
        if not self._out.is_terminal:
            return
        shown = Text(one_line(text, max(20, self._out.width - 8)))
        if self._status is None:
            self._status = self._out.status(shown)
            self._status.start()
        else:
            self._status.update(shown)

    def _quiet(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    @contextmanager
    def open(self) -> Generator[TerminalReporter]:
        """Leave the terminal as it was, however the task ends.

        Raises:
            Failure: Ctrl-C; exit code 130.
        """
        try:
            yield self
        except KeyboardInterrupt:
            text = "interrupted; what the tools changed so far stays, the conversation is not kept"
            raise Failure(text, INTERRUPTED) from None
        finally:
            self._quiet()


class CallScreen(TerminalReporter):
    """The screen of `deep call`: the tool, its approval, and no word of a model."""

    always_for = "in this call"

    def event(self, event: RunEvent) -> None:
        """One line for what the tool did."""
        if not isinstance(event, RequestEvent):
            super().event(event)
        if isinstance(event, ToolEvent) and event.outcome != "started":
            self._quiet()  # nothing is waited for any more


def answer_of(line: str) -> Answer | None:
    """What a person meant; None where that is not clear, so that the question is asked again.

    One word is one of the answers. More words are a no with its reason, unless they begin with another answer.
    """
    word, _, rest = line.strip().partition(" ")
    meant = ANSWERS.get(word.lower().rstrip(",.:;!"))
    if not rest.strip():
        return meant
    if meant is not None and meant != "no":
        return None
    # `n use tabs` and `no, use tabs` are an answer and its reason; in `no new files` the `no` belongs to the reason.
    return Refusal(plain(rest.strip() if meant == "no" and word.lower() != "no" else line.strip()))


def forget_typed(stream: TextIO) -> None:
    """Drop what was typed before a question stood there: it cannot have been meant as its answer."""
    if os.name == "posix" and stream.isatty():
        import termios

        termios.tcflush(stream, termios.TCIFLUSH)


def _of_child(question: Question) -> str:
    return f", subagent {plain(question.child)}" if question.child else ""


def target(args: Mapping[str, Any]) -> str:
    """What a call is about, in a few words: its path, its command."""
    for key in TARGETS:
        if isinstance(args.get(key), str):
            text = one_line(args[key], 80)
            return f"$ {text}" if key == "command" else text
    return one_line(", ".join(f"{key}={_short(value)}" for key, value in args.items()), 60)


def _short(value: object) -> str:
    if isinstance(value, list | tuple | dict):
        count = len(cast("list[Any]", value))
        return f"{count} {_plural('item', count)}"
    return repr(value)


def _body(question: Question) -> list[str]:
    """What would run, all of it, line by line: the diff, or every argument."""
    if question.diff is not None:
        lines = question.diff.removesuffix("\n").split("\n")
        return [plain(line) for line in lines] if question.diff else ["(nothing would change)"]
    lines: list[str] = []
    for key, value in question.args.items():
        text = value if isinstance(value, str) else repr(value)
        first, *rest = plain(text).split("\n")
        lines.append(f"{plain(key)}: {first}")
        lines.extend(f"  {line}" for line in rest)
    return lines or ["(no arguments)"]


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
