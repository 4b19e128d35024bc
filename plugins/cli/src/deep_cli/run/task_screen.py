"""The screen of a task: progress and questions on stderr, line by line; works without a terminal and with NO_COLOR."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TextIO, TypeAlias

from deep_core import ApprovalEvent, CompactionEvent, RequestEvent, RetryEvent, RunEvent
from deep_core.plugin_api import call_ids, visible

from ..failure import INTERRUPTED, Failure
from ..terminal.asking import read_choice
from ..terminal.interrupts import defer_interrupts
from ..terminal.output import Foot, Lines, Part, say_text
from ..terminal.prose import Prose
from ..terminal.screen import label, middle, one_line, place
from ..terminal.waiting import interruptible
from ..view import DIFF_STYLES, Marks, View, exit_code, plural, target
from .approval import Answer, Ask, Question, Refusal
from .names import short_id
from .report import Decision, RunReport, Step
from .reporter import Reporter
from .rules import Always, Rule, Rules, is_edit, offers

if TYPE_CHECKING:
    from .changes import FileChange
    from .progress import Spent

__all__ = ["CallScreen", "TerminalReporter"]

LINES = 60
"""Lines of a question that it shows first, a third of them the last ones; `v` shows all."""
WIDTH = 1_000
"""Characters of a line that a question shows first."""
Line: TypeAlias = tuple[str, str]
"""A line of a question, and its style."""
ANSWERS: Mapping[str, Answer] = {"y": "yes", "yes": "yes", "n": "no", "no": "no", "a": "always", "always": "always"}
EDITS: Mapping[str, Answer] = {"e": "edits", "edits": "edits", "ke": "keep edits"}
"""More answers about a change to a file."""
WHICH = "    which? (Enter: none) "
BY = {
    "you": "by you",
    "always": "by you: always",
    "mode": "by mode: accept-edits",
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
        verbose: show each request and more of each output.
        quiet: show only the answer, questions and what failed.
        foot: shows what changes below the printed lines; None for the lines themselves.
        agent: the agent that `--agent` names, which a command that continues must name too; None for deep's.
    """

    def __init__(
        self,
        answer: TextIO | None = None,
        *,
        stream: TextIO | None = None,
        replies: TextIO | None = None,
        verbose: bool = False,
        quiet: bool = False,
        foot: Foot | None = None,
        agent: str | None = None,
    ) -> None:
        self._answer = answer
        self._agent = agent
        self._out = Lines(stream or sys.stderr, foot=foot)
        self._in = interruptible(replies or sys.stdin)
        self._denied: set[str] = set()
        """Calls whose denial was shown as a decision; the run's event would repeat it."""
        # A terminal with another encoding shows letters instead of question marks.
        self._marks = Marks.of(self._out.encoding)
        self.view = View(self._marks, verbose=verbose, quiet=quiet)
        self._prose = Prose()
        self._doing = ""
        self._last: Literal["", "line", "prose"] = ""
        """What was printed last: an empty line keeps the answer apart from the rest."""
        self._has_text = False
        """Whether the last thing that the model said was shown as it came."""
        self.streams = answer is not None and answer.isatty() and self._out.is_terminal
        self._left: tuple[tuple[FileChange, ...], str | None] | None = None

    # -- events --------------------------------------------------------------------------------------------------------

    def begin(self, task: str, model: str, backend: str, folder: Path) -> None:
        """Show task, model, backend and folder."""
        self.view.restart()
        if not self.view.quiet:
            self._line(
                ("deep ", "bold"),
                one_line(task, 120),
                (f"\n     model {label(model)}, backend {label(backend)}, in {label(str(folder))}", "dim"),
            )
        self._wait("waiting for the model")

    def event(self, event: RunEvent) -> None:
        """Show a request, a denial or a compaction. `started` and `ended` show calls."""
        pad = "  " * (event.depth + 1)
        if isinstance(event, RequestEvent):
            if self.view.verbose:
                used = f"  {event.input_tokens:,} tokens in, {event.output_tokens:,} out"
                self._line(f"{pad}{self._marks.send} ", "request", (used, "dim"))
        elif isinstance(event, ApprovalEvent) and event.decision == "denied" and event.call_id not in self._denied:
            self._line(
                (f"{pad}{self._marks.bad} {label(event.tool)} ", "red"),
                "denied by policy",
                (f"  {one_line(event.reason, 200)} [{label(event.plugin)}]", "dim"),
            )
        elif isinstance(event, RetryEvent):
            if event.replaces:
                self._end_prose()
                self._has_text = False
            # Also with `quiet`: a person waits for it.
            self._line((f"{pad}{self._marks.send} {retry_words(event)}", "yellow"))
            self._wait("waiting for the provider")
        elif isinstance(event, CompactionEvent) and not self.view.quiet:
            self._line(
                f"{pad}{self._marks.cut} ",
                f"history {event.messages_before} messages, now {event.messages_after}",
                (f"  [{label(event.plugin)}]", "dim"),
            )

    def spent(self, spent: Spent) -> None:
        """Keep it for the status line."""
        self.view.spent = spent

    def text(self, piece: str) -> None:
        """Show a piece of the answer: blocks that are finished are printed, the rest is in the foot."""
        self._has_text = True
        for block in self._prose.feed(piece):
            self._show_prose(block)
        self._wait("answering")

    def thinking(self, piece: str) -> None:
        """Say that the model thinks; with `verbose`, show its thoughts."""
        self._wait("thinking")

    def started(self, step: Step) -> None:
        """Show a call that starts in the status line, a task as a line."""
        self._end_prose()
        for line in self.view.started(step):
            self._line(*line)
        self._wait(self._doing)

    def waits(self, step: Step) -> None:
        """Forget a call that waits for approval."""
        self.view.waits(step)

    def ended(self, step: Step) -> None:
        """Show a call with its mark, and what it did."""
        self._end_prose()
        for line in self.view.ended(step):
            self._line(*line)
        self._wait("waiting for the model")

    def decided(self, decision: Decision) -> None:
        """Show the decision about a call that needs approval."""
        if not decision.approved:
            self._denied.add(decision.call_id)
        elif self.view.quiet:
            return
        # What was approved may still fail: the tick comes with its result.
        mark, style, word = (
            (self._marks.said, "dim", "approved") if decision.approved else (self._marks.bad, "red", "denied")
        )
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

    def interrupted(self, files: tuple[FileChange, ...], session: str | None) -> None:
        """Keep what the last line says: `open` prints it."""
        self._left = (files, session)

    def end(self, report: RunReport) -> None:
        """Show the answer, then the costs."""
        self._end_prose()
        self._quiet()
        if self._answer is not None and report.output and not self._has_text:
            if self.streams:
                self._show_prose(report.output)
            else:
                say_text(report.output, self._answer)
        if self.view.quiet:
            return
        words = {
            "done": ("Done", "bold green"),
            "truncated": ("Cut off", "bold yellow"),
            "waiting": ("Ended, with an approval unanswered,", "bold yellow"),
            "cancelled": ("Stopped", "bold yellow"),
            "filtered": ("Filtered", "bold yellow"),
            "failed": ("Failed", "bold red"),
            "refused": ("Ended, with an approval denied,", "bold yellow"),
        }
        word, style = words[report.status]
        steps, requests = len(report.steps), report.requests
        calls = f"{steps} {plural('tool call', steps)} and {requests} {plural('request', requests)}"
        costs = self.view.join("", self.view.duration, *self.view.costs())
        self._line((word, style), f" after {calls}", (costs, "dim"))
        if report.files:
            for number, change in enumerate(report.files[:40]):
                self._line(("Files    " if number == 0 else " " * 9, "dim"), f"{change.change:8} {label(change.path)}")
            if len(report.files) > 40:
                self._line(" " * 9, f"and {len(report.files) - 40} more")
        else:
            self._line(("Files    ", "dim"), "none changed")
        if report.session is not None:
            self._line(("Session  ", "dim"), continue_with(report.session, self._agent))
        if report.prompt is not None and self.view.verbose:
            parts = ", ".join(f"{plugin} {count:,}" for plugin, count in report.prompt.by_plugin.items() if count)
            self._line(
                ("Prompt   ", "dim"),
                f"{report.prompt.tokens:,} tokens a request",
                (f" (estimate; {parts}; `deep explain` has more)" if parts else " (estimate)", "dim"),
            )

    # -- the answer ----------------------------------------------------------------------------------------------------

    def _show_prose(self, block: str) -> None:
        if self._last:
            self._out.line()
        self._last = "prose"
        self._out.markdown(block)

    def _end_prose(self) -> None:
        """Print what is not finished of the text: something else follows."""
        for block in self._prose.end():
            self._show_prose(block)

    # -- questions -----------------------------------------------------------------------------------------------------

    @property
    def ask(self) -> Ask | None:
        """The function that asks the user, None if the input is not a terminal."""
        return self._question if self._in.isatty() else None

    is_live = False
    rules: Rules | None = None
    """The rules that the answer `always` may add to; None: it is about the tool."""
    always_for = "in this task"
    """The scope of the answer `always`, as the question shows it."""

    def _question(self, question: Question) -> Answer:
        if question.choice is not None:
            self._quiet()
            forget_typed(self._in)
            about = f"{question.plugin}{of_child(question)}"
            said = read_choice(question.choice, about, show=self._line, out=self._out, replies=self._in)
            return "closed" if said is None else said
        body = body_of(question)
        with defer_interrupts():
            self._show_question(question, body)
        return self._reply(question, body)

    def _show_question(self, question: Question, body: Sequence[Line]) -> None:
        self._quiet()
        if not self.is_live:
            forget_typed(self._in)
        self._line(
            (f"  {self._marks.ask} ", "yellow"),
            (label(question.tool), "bold"),
            " wants to run",
            (f"  [{label(question.plugin)}{of_child(question)}]", "dim"),
            # Each by itself: a long one must not hide another.
            ("  " + "; ".join(middle(label(each.text or each.kind), 400) for each in question.reasons), "dim"),
        )
        for key, value in (question.about or {}).items():
            self._line((f"    {label(key)}: {middle(label(str(value)), 400)}", "dim"))
        if question.diff is not None:
            self.view.shown.add(call_ids(question.call_id)[-1])  # the call's own line need not repeat it
        hidden = len(body) - LINES
        last = LINES // 3
        self._block([(middle(line, WIDTH, ": v shows them"), style) for line, style in body[: LINES - last]])
        if hidden > 0:
            self._line((f"    … {hidden} {plural('line', hidden)} hidden: v shows them", "yellow"))
        rest = body[max(LINES - last, len(body) - last) :]
        self._block([(middle(line, WIDTH, ": v shows them"), style) for line, style in rest])

    def _reply(self, question: Question, body: Sequence[Line]) -> Answer:
        while True:
            try:
                with defer_interrupts():
                    self._out.line(*asks_for(question, self.always_for), end="")
                line = self._in.readline()
            except KeyboardInterrupt:
                self._line("")  # start the next output on a new line
                raise
            if not line:
                self._line("")
                return "closed"
            answer = answer_of(line, question)
            if answer == "always" and self.rules is not None:
                found = offers(question, self.rules.folder)
                self._show_rules(found, self.rules)
                with defer_interrupts():
                    self._out.line(WHICH, end="")
                answer = rule_of(self._in.readline(), found, self.rules)
            if answer is not None:
                return answer
            if line.strip().lower() in ("v", "view"):
                self._block(body)

    def _show_rules(self, found: Sequence[Rule], rules: Rules) -> None:
        """Show what `always` could cover."""
        if not found:
            self._exact(("      always covers nothing here: the call asks for a reason of its own", "dim"))
            return
        for number, rule in enumerate(found, 1):
            self._line((f"      {number}  ", "bold"), rule.about)
        where = f"k1: keep it for this project, in {place(rules.file)}" if rules.can_keep else ""
        self._line((f"      {self.always_for}{'; ' if where else ''}{where}", "dim"))

    def _block(self, lines: Iterable[Line]) -> None:
        for line, style in lines:
            self._exact((f"    {line}", style))

    # -- the screen ----------------------------------------------------------------------------------------------------

    def _line(self, *parts: Part) -> None:
        if self._last == "prose" and self._out.is_terminal:
            self._out.line()
        self._last, self._has_text = "line", False
        self._out.line(*parts, wrap=True)

    def _exact(self, *parts: Part) -> None:
        """Print a line of a question: nothing is left out, not even a space at its end."""
        self._last = "line"
        self._out.line(*parts)

    def _wait(self, doing: str) -> None:
        self._doing = doing
        if self._out.is_terminal:
            self._out.show_foot(self._prose.rest, lambda: self.view.status(self._doing))

    def _quiet(self) -> None:
        self._out.hide_foot()

    @contextmanager
    def open(self) -> Generator[TerminalReporter]:
        """Restore the terminal, however the task ends.

        Raises:
            Failure: Ctrl-C; exit code 130.
        """
        try:
            yield self
        except KeyboardInterrupt:
            self._quiet()
            raise Failure(interruption(*(self._left or ((), None)), self._agent), INTERRUPTED) from None
        finally:
            self._quiet()


def interruption(files: Sequence[FileChange], session: str | None, agent: str | None = None) -> str:
    """Return what Ctrl-C left behind: the files that were changed, and how to continue."""
    names = [f"{change.change} {label(change.path)}" for change in files[:20]]
    if len(files) > 20:
        names.append(f"and {len(files) - 20} more")
    changed = f"these files stay as they are now: {', '.join(names)}" if names else "no file was changed"
    way = f"; continue with: {continue_with(session, agent)}" if session else "; the conversation is not stored"
    return f"interrupted; {changed}{way}"


def retry_words(event: RetryEvent) -> str:
    """Return what a wait is for, and what ends it."""
    from deep_sessions import wait_words

    words = wait_words(event.model, event.reason, event.seconds, replaces=event.replaces)
    return f"{words}; Ctrl-C stops" if event.seconds else words


def continue_with(session: str, agent: str | None = None) -> str:
    """Return the command that continues a stored conversation, with its own `--agent`."""
    digits = short_id(session)
    how = f"deep chat --resume {digits}" if digits else f"deep run --session {label(session)}"
    return f"{how} --agent {label(shlex.quote(agent))}" if agent else how


class CallScreen(TerminalReporter):
    """The screen of `deep call`: the tool and its approval, without a model."""

    always_for = "in this call"

    def event(self, event: RunEvent) -> None:
        """Show one line for the tool."""
        if not isinstance(event, RequestEvent):
            super().event(event)

    def ended(self, step: Step) -> None:
        """Show the call; its result is the output."""
        super().ended(replace(step, result=step.result if exit_code(step) else ""))
        self._quiet()  # end the wait


def asks_for(question: Question, scope: str) -> list[Part]:
    """Return the line that asks for the answer: of a change to a file, with the answer that accepts all of them."""
    about = (f"({label(question.tool)}, {scope})", "dim")
    parts: list[Part] = ["    run it? ", ("y", "bold"), "es, ", ("n", "bold"), "o, ", ("a", "bold"), "lways ", about]
    return [*parts, *([", ", ("e", "bold"), "dits"] if is_edit(question) else []), ", or say why not: "]


def answer_of(line: str, question: Question | None = None) -> Answer | None:
    """Parse a reply; None if it is not clear, so that the question is repeated.

    One word is one of the answers. More words are a no with a reason, unless they begin with another answer.
    """
    word, _, rest = line.strip().partition(" ")
    answer = ANSWERS.get(word.lower().rstrip(",.:;!"))
    if not rest.strip():
        return EDITS.get(word.lower()) if answer is None and question and is_edit(question) else answer
    if answer is not None and answer != "no":
        return None
    # `n use tabs` and `no, use tabs` are an answer and its reason; in `no new files` the `no` belongs to the reason.
    return Refusal(visible(rest.strip() if answer == "no" and word.lower() != "no" else line.strip()))


def rule_of(line: str, found: Sequence[Rule], rules: Rules) -> Always | None:
    """Parse which rule was chosen: a number, after `k` to keep it; None for no choice, so that the question repeats."""
    word = line.strip().lower()
    keep, number = word.startswith("k"), word.removeprefix("k").strip()
    if not number.isdecimal() or not 1 <= int(number[:4]) <= len(found) or (keep and not rules.can_keep):
        return None
    return Always(found[int(number) - 1], keep)


def forget_typed(stream: TextIO) -> None:
    """Drop text typed before the question appeared: it cannot be its answer."""
    if os.name == "posix" and stream.isatty():
        import termios

        termios.tcflush(stream, termios.TCIFLUSH)


def of_child(question: Question) -> str:
    return f", subagent {label(question.child)}" if question.child else ""


def body_of(question: Question) -> list[Line]:
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
