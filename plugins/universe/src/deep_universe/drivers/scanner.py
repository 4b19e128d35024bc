"""Reads a reply that arrives in pieces: text that is safe to show, and the calls between it, in linear time."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import TYPE_CHECKING, Final, Literal

from ..calls import InvalidCall, ToolCall

if TYPE_CHECKING:
    from .offered import OfferedTools

__all__ = [
    "RAW_LIMIT",
    "Body",
    "Form",
    "Grammar",
    "Head",
    "Item",
    "ReasoningTag",
    "Scanner",
    "UnopenedTag",
    "partial_pattern",
]

Item = str | ToolCall | InvalidCall
PIECE: Final = 8192
"""Characters processed at once, so that text which is read a second time is never copied with a whole reply."""
RAW_LIMIT: Final = 2000
"""Characters of `InvalidCall.raw`."""
CUT: Final = 4
"""So much of an opening marker at the end of a reply is a call that was cut off; less is text."""
RUN: Final = {"`": re.compile("`*"), "~": re.compile("~*")}
BLANK: Final = re.compile(r"[ \t\r]*")
QUOTES: Final = frozenset("\"'“”„‟‘’‚‛«»‹›「『")
ENDS: Final = frozenset(".,;:!?…)]}%")
"""After one of these, and after letters and digits, a quotation mark closes."""


class ReasoningTag(str):
    """A tag of reasoning, which a scanner says apart from other text."""

    __slots__ = ()


class UnopenedTag(ReasoningTag):
    """A closing tag without its opening one: many chat templates open the reasoning before the reply begins.

    All text before it was reasoning, and no call before it counts.
    """

    __slots__ = ()


def partial_pattern(leads: Iterable[str]) -> re.Pattern[str]:
    """A pattern that finds, at the end of a text, the beginning of one of these strings."""

    def beginnings(lead: str) -> str:
        pattern = ""
        for character in reversed(lead[:-1]):
            pattern = re.escape(character) + (f"(?:{pattern})?" if pattern else "")
        return pattern

    return re.compile("(?:" + "|".join(beginnings(lead) for lead in sorted(leads) if len(lead) > 1) + r")\Z")


class Head:
    """How markup begins at the start of a line: literal texts and patterns, in order.

    Arguments:
        pieces: each a regular expression; a literal text is written `=text`. A beginning of what a pattern matches
            must match it too (`[a-z]{0,64}` does), because a reply may stop at any character.
        commit: a beginning that holds this text is surely a call: at the end of a reply it was cut off.
    """

    def __init__(self, *pieces: str, commit: str = "") -> None:
        self._commit = commit
        parts: list[str] = []
        for piece in pieces:
            parts += [re.escape(character) for character in piece[1:]] if piece.startswith("=") else [piece]
        self._whole = re.compile("".join(parts))
        beginning = ""
        for part in reversed(parts):
            beginning = f"{part}(?:{beginning})?" if beginning else part
        self._beginning = re.compile(beginning + r"\Z")
        self._line = re.compile(r"(?m)^[ \t]*(?:" + self._whole.pattern + ")")

    def match(self, text: str, position: int, final: bool) -> re.Match[str] | Literal["wait"] | None:
        """Match at a position; `wait` if more text may make it match."""
        if not final and self._beginning.match(text, position):
            return "wait"
        return self._whole.match(text, position)

    def cut(self, text: str, position: int) -> bool:
        """Whether the text ends in the middle of what is surely a call."""
        return bool(
            self._commit and self._commit in text[position:] and self._beginning.match(text, position)
        ) and not self._whole.match(text, position)

    def found_in(self, text: str) -> bool:
        """Whether a line of the text begins so, quoted or not."""
        return self._line.search(text) is not None


class Body(ABC):
    """Reads one form of a call after its opening marker, in pieces.

    Attributes:
        done: the call is complete, or can never be.
        back: text that the body read and that is not part of it.
        native: it looked like the dialect's own, well-formed or not.
        examined: characters examined.
        is_fence: it is a code fence, which often is a quotation.
        is_broken: nothing says where it ends.
    """

    def __init__(self, opening: str) -> None:
        self.opening = opening
        self.done = self.is_fence = self.is_broken = False
        self.back = ""
        self.native = True
        self.examined: int = 0

    @abstractmethod
    def read(self, text: str, position: int, final: bool) -> int:
        """Read from a position and return where the body stopped. Text after that comes again in the next call."""

    @abstractmethod
    def items(self) -> Sequence[ToolCall | InvalidCall] | None:
        """The calls of a body that is done; None if it was text after all."""

    @abstractmethod
    def cut_off(self) -> Sequence[ToolCall | InvalidCall] | None:
        """What the body is if the reply ends here; None if it was text after all."""

    @abstractmethod
    def raw(self) -> str:
        """All of the markup, the opening included."""


@dataclass(frozen=True)
class Form:
    """One way to write calls: what opens it, and what reads the rest.

    Attributes:
        opener: the literal marker, anywhere in a line; or a `Head`, at the start of a line.
        body: creates the reader; it gets the text that opened it.
        closers: markers that are dropped if they follow a call once too often.
        after_call: a `Head` that counts only after a call in the same reply.
        bare: what has no markers. `offered` counts only if it names an offered tool; `own`, too, if it is the dialect's
            own form.
    """

    opener: str | Head
    body: Callable[[str], Body]
    closers: tuple[str, ...] = ()
    after_call: bool = False
    bare: Literal["", "offered", "own"] = ""


class Grammar:
    """What a scanner looks for, compiled once for each driver."""

    def __init__(self, forms: Sequence[Form], reasoning: Sequence[tuple[str, str]]) -> None:
        self.inline = {form.opener: form for form in forms if isinstance(form.opener, str)}
        self.heads = [(form.opener, form) for form in forms if isinstance(form.opener, Head)]
        self.reasoning = dict(reasoning)
        self.closers = {closer for form in forms for closer in form.closers}
        leads = sorted({*self.inline, *self.reasoning, *self.reasoning.values(), *self.closers}, key=len, reverse=True)
        self.search = re.compile("|".join([*map(re.escape, leads), "[`\n]"]))
        self.tail = partial_pattern(leads)
        self.longest = max(map(len, leads), default=1)
        self.reasoning_tails = {closer: partial_pattern([closer]) for closer in self.reasoning.values()}


class _Mode(Enum):
    TEXT = auto()
    FENCE = auto()
    REASONING = auto()
    BODY = auto()


@dataclass
class _Fence:
    """A code fence: its character, length and indentation, and how far its present line is read."""

    character: str
    length: int
    indent: int
    at: Literal["info", "indent", "run", "trail", "rest"] = "info"
    seen_indent: int = 0
    seen_run: int = 0


class Scanner:
    """Splits one reply into text and calls while it arrives.

    Markup counts only where it is not quoted: never inside reasoning, a code fence, inline backticks, a line that
    begins with `>` or directly after an opening quotation mark. A call must be closed: one that the reply's end cuts
    off is an `InvalidCall`, even if its arguments are complete. Any way of splitting a reply gives the same text and
    the same calls.

    Attributes:
        line_start: whether a call counts only at the start of a line, or after another call.
        sources: for each marker that held calls, what the reply has there, and how many items it became; None unless
            a caller puts a deque here before the first piece.
        examined: characters examined so far; at most a constant times the length of the reply.
        native: how many times the dialect's own markup was found.

    Arguments:
        grammar: what to look for.
        offered: the tools that may be called; None if unknown, and then only markup counts.
    """

    def __init__(self, grammar: Grammar, offered: OfferedTools | None = None) -> None:
        self._grammar, self._offered = grammar, offered
        self._buffer = ""
        self._at = 0
        self._mode = _Mode.TEXT
        self._out: list[Item] = []
        self._texts: list[str] = []
        self._indent: int | None = 0
        """Blanks since the line's start; None after its first other character."""
        self._quoted_line = False
        self._run = ("", 0)
        self._run_starts_line = False
        self._span = 0
        """Length of the backticks that opened inline code; 0 outside."""
        self._span_in_line = False
        self._fence = _Fence("`", 3, 0)
        self._reasoning_ends = ""
        self._body: Body | None = None
        self._after_call = self._called = False
        self._blanks: list[str] = []
        self._pending: list[tuple[str, Sequence[ToolCall | InvalidCall] | None, bool]] = []
        """Calls, and text after them, in backticks that were opened in an earlier line and may yet be closed."""
        self._before = ""
        """The last two characters said."""
        self._line_blank = True
        """Nothing but blanks and calls since the line's start."""
        self._body_quoted = False
        self._after_quoted = False
        """The last call was quoted, and blanks alone followed."""
        self._reasoned = False
        self._bare: Literal["", "offered", "own"] = ""
        """Of the form whose body is read."""
        self._bare_broke = False
        """Something looked like JSON and never ended. Only markers count then, so that the reply is read twice at most.
        """
        self._opened_at = 0
        """Blanks before the present body."""
        self._spoke = False
        """Whether the reply has text."""
        self.line_start = False
        self.sources: deque[tuple[str, int]] | None = None
        self.examined = 0
        self.native = 0

    def feed(self, chunk: str) -> list[Item]:
        """Read the next piece and return what is certain now: text to show, and finished calls, in order."""
        for start in range(0, len(chunk), PIECE):
            self._buffer = self._buffer[self._at :] + chunk[start : start + PIECE]
            self._at = 0
            self._advance(final=False)
        return self._take()

    def finish(self) -> list[Item]:
        """Return the rest: the reply is complete."""
        self._advance(final=True)
        while self._body is not None:
            body, self._body = self._body, None
            self._mode = _Mode.TEXT
            self._close(body, body.cut_off())
            self._advance(final=True)
        self._settle(quoted=False)
        return self._take()

    def _advance(self, *, final: bool) -> None:
        steps = {
            _Mode.TEXT: self._text,
            _Mode.FENCE: self._in_fence,
            _Mode.REASONING: self._in_reasoning,
            _Mode.BODY: self._in_body,
        }
        while self._at < len(self._buffer) or self._mode is _Mode.BODY or self._run[1]:
            if not steps[self._mode](final):
                return

    # What comes out

    def _take(self) -> list[Item]:
        self._flush()
        out, self._out = self._out, []
        return out

    def _flush(self) -> None:
        if self._texts:
            self._out.append("".join(self._texts))
            self._texts = []

    def _consume(self, end: int) -> None:
        text, self._at = self._buffer[self._at : end], end
        self._say(text)
        self._note(text)

    def _note(self, text: str) -> None:
        """Remember what stands before the next marker."""
        if not text:
            return
        self._spoke = self._spoke or not text.isspace()
        _, newline, line = text.rpartition("\n")
        self._line_blank = (not line or line.isspace()) and (self._line_blank or bool(newline))
        self._before = (self._before + text)[-2:]
        self._after_quoted = self._after_quoted and text.isspace()

    def _in_quotes(self) -> bool:
        """Whether a marker here is quoted by what stands before it."""
        if self._after_quoted or (self.line_start and not self._line_blank):
            return True
        before, mark = self._before[:-1], self._before[-1:]
        return mark in QUOTES and not (before.isalnum() or before in ENDS)

    def _say(self, text: str) -> None:
        if not text:
            return
        if self._pending:
            self._pending.append((text, None, False))
            return
        if self._after_call:
            if text.isspace():
                self._blanks.append(text)
                return
            self._after_call = False
            self._texts += self._blanks
            self._blanks = []
        self._texts.append(text)

    def _say_apart(self, text: ReasoningTag) -> None:
        """Say a tag of reasoning as a string of its own: Pydantic AI recognises it only so."""
        self._before, self._line_blank, self._after_quoted = "", True, False
        if self._pending:
            self._say(text)
            return
        before = self._blanks if self._after_call else []
        self._after_call, self._blanks = False, []
        self._texts += before
        self._flush()
        self._out.append(text)

    def _call(self, raw: str, items: Sequence[ToolCall | InvalidCall], native: bool) -> None:
        if self._span or self._pending:
            self._pending.append((raw, items, native))
            return
        self.native += native
        self._flush()
        self._out += items
        if self.sources is not None and items:
            self.sources.append((raw, len(items)))
        self._after_call = True
        self._called = self._called or bool(items)
        self._blanks = []

    def _settle(self, *, quoted: bool) -> None:
        """End inline code: what waited in it was quoted if the backticks are closed."""
        self._span = 0
        pending, self._pending = self._pending, []
        for raw, items, native in pending:
            if items is None or quoted:
                self._say(raw)
            else:
                self._call(raw, items, native)

    # Text

    def _text(self, final: bool) -> bool:
        if self._run[1]:
            return self._in_run(final)
        if self._indent is not None:
            return self._line_start(final)
        found = self._grammar.search.search(self._buffer, self._at)
        if found is None:
            return self._tail(final)
        self.examined += found.end() - self._at
        self._consume(found.start())
        lead = found[0]
        if lead == "\n":
            self._newline(found.end())
        elif lead == "`":
            self._run, self._run_starts_line = ("`", 1), False
            self._consume(found.end())
        elif self._quoted_line or (self._span and self._span_in_line):
            self._consume(found.end())
        else:
            self._marker(lead, found.end())
        return True

    def _tail(self, final: bool) -> bool:
        """Say text without a marker; hold back an end that may begin one. If the reply ends there, it was cut off."""
        end = len(self._buffer)
        start = max(self._at, end - self._grammar.longest)
        self.examined += end - self._at + end - start
        tail = self._grammar.tail.search(self._buffer, start)
        self._consume(tail.start() if tail else end)
        if not final or not tail:
            return False
        cut = tail[0]
        quoted = self._quoted_line or (self._span and self._span_in_line) or self._in_quotes()
        if len(cut) >= CUT and not quoted and any(opener.startswith(cut) for opener in self._grammar.inline):
            self._cut_off(end)
        else:
            self._consume(end)
        return False

    def _cut_off(self, end: int) -> None:
        """The reply ends in the middle of an opening marker."""
        cut, self._at = self._buffer[self._at : end], end
        problem = "the reply was cut off where a call begins: write the call again"
        self._call(cut, [InvalidCall("", "", cut, problem)], native=True)

    def _marker(self, lead: str, end: int) -> None:
        form = self._grammar.inline.get(lead)
        if form is not None:
            self._open(form, lead, end)
        elif lead in self._grammar.reasoning:
            self._settle(quoted=False)
            self._at, self._reasoned = end, True
            self._say_apart(ReasoningTag(lead))
            self._mode, self._reasoning_ends = _Mode.REASONING, self._grammar.reasoning[lead]
        elif lead in self._grammar.reasoning_tails and not self._reasoned:
            self._settle(quoted=False)
            self._at, self._reasoned, self._indent = end, True, 0
            self._say_apart(UnopenedTag(lead))
        elif self._after_call:
            self._at = end
        else:
            after_quoted = self._after_quoted
            self._consume(end)
            self._after_quoted = after_quoted and lead in self._grammar.closers

    def _open(self, form: Form, opening: str, end: int) -> None:
        self._at, self._bare = end, form.bare
        self._opened_at, self._indent = self._indent or 0, None
        self._body_quoted = self._in_quotes()
        self._mode, self._body = _Mode.BODY, form.body(opening)

    def _reads_bare(self, form: Form) -> bool:
        return not self._bare_broke and (form.bare == "own" or self._offered is not None)

    def _newline(self, end: int) -> None:
        self._consume(end)
        self._indent, self._quoted_line, self._span_in_line = 0, False, False

    def _line_start(self, final: bool) -> bool:
        blank = BLANK.match(self._buffer, self._at)
        end = blank.end() if blank else self._at
        self.examined += end - self._at + 1
        self._indent = (self._indent or 0) + end - self._at
        self._consume(end)
        if end == len(self._buffer):
            return False
        first = self._buffer[end]
        if first == "\n":
            self._settle(quoted=False)
            self._newline(end + 1)
            return True
        for head, form in self._grammar.heads:
            if (form.after_call and not self._called) or (form.bare and not self._reads_bare(form)):
                continue
            if final and head.cut(self._buffer, end):
                self._cut_off(len(self._buffer))
                return False
            match = head.match(self._buffer, end, final)
            if match == "wait":
                self.examined += len(self._buffer) - end
                return False
            if match is not None:
                self.examined += match.end() - end
                self._open(form, match[0], match.end())
                return True
        if first in RUN:
            self._run, self._run_starts_line = (first, 1), True
            self._consume(end + 1)
            return True
        self._indent = None
        if first == ">":
            self._settle(quoted=False)
            self._quoted_line = True
        return True

    def _in_run(self, final: bool) -> bool:
        """Count a run of backticks or tildes, then open or close what it opens or closes."""
        character, length = self._run
        match = RUN[character].match(self._buffer, self._at)
        end = match.end() if match else self._at
        self.examined += end - self._at + 1
        length += end - self._at
        self._run = (character, length)
        self._consume(end)
        if end == len(self._buffer) and not final:
            return False
        self._run = ("", 0)
        indent, self._indent = self._indent, None
        if self._run_starts_line and length >= 3:
            self._settle(quoted=False)
            self._mode, self._fence = _Mode.FENCE, _Fence(character, length, indent or 0)
        elif character == "`":
            self._backticks(length)
        return True

    def _backticks(self, length: int) -> None:
        if not self._span:
            self._span, self._span_in_line = length, True
        elif self._span == length:
            self._settle(quoted=True)

    # Code fences, as CommonMark has them, indented at will

    def _in_fence(self, final: bool) -> bool:
        fence = self._fence
        if fence.at == "info":
            return self._in_info(fence)
        if fence.at == "indent":
            match = BLANK.match(self._buffer, self._at)
            end = match.end() if match else self._at
            fence.seen_indent += end - self._at
        elif fence.at == "run":
            match = RUN[fence.character].match(self._buffer, self._at)
            end = match.end() if match else self._at
            fence.seen_run += end - self._at
        elif fence.at == "trail":
            match = BLANK.match(self._buffer, self._at)
            end = match.end() if match else self._at
        else:
            end = self._buffer.find("\n", self._at)
            end = len(self._buffer) if end < 0 else end
        self.examined += end - self._at + 1
        self._consume(end)
        if end == len(self._buffer):
            return False
        if self._buffer[end] == "\n":
            closes = fence.seen_run >= fence.length and fence.seen_indent <= fence.indent + 3
            if closes and fence.at in ("run", "trail"):
                self._mode = _Mode.TEXT
            fence.at, fence.seen_indent, fence.seen_run = "indent", 0, 0
            self._newline(end + 1)
        else:
            fence.at = {"indent": "run", "run": "trail", "trail": "rest", "rest": "rest"}[fence.at]  # type: ignore[assignment]
        return True

    def _in_info(self, fence: _Fence) -> bool:
        """Read the line that opens a fence. With backticks in it, they open inline code instead."""
        for position in range(self._at, len(self._buffer)):
            character = self._buffer[position]
            if character == "\n" or (character == fence.character == "`"):
                break
        else:
            self.examined += len(self._buffer) - self._at
            self._consume(len(self._buffer))
            return False
        self.examined += position - self._at + 1
        self._consume(position)
        if self._buffer[position] == "\n":
            fence.at = "indent"
            self._newline(position + 1)
        else:
            self._mode = _Mode.TEXT
            self._span, self._span_in_line = fence.length, True
        return True

    # Reasoning

    def _in_reasoning(self, final: bool) -> bool:
        closer = self._reasoning_ends
        found = self._buffer.find(closer, self._at)
        if found >= 0:
            self.examined += found + len(closer) - self._at
            self._consume(found)
            self._at = found + len(closer)
            self._say_apart(ReasoningTag(closer))
            self._mode, self._indent = _Mode.TEXT, 0
            return True
        end = len(self._buffer)
        self.examined += end - self._at
        if not final:
            tails = self._grammar.reasoning_tails[closer]
            tail = tails.search(self._buffer, max(self._at, end - len(closer)))
            end = tail.start() if tail else end
        self._consume(end)
        return False

    # Calls

    def _in_body(self, final: bool) -> bool:
        body = self._body
        if body is None:  # pragma: no cover
            raise AssertionError("a body is open in this mode")
        before = body.examined
        self._at = body.read(self._buffer, self._at, final)
        self.examined += body.examined - before
        if not body.done:
            return False
        self._body, self._mode = None, _Mode.TEXT
        self._close(body, body.items())
        return True

    def _meant(
        self, body: Body, items: Sequence[ToolCall | InvalidCall] | None
    ) -> Sequence[ToolCall | InvalidCall] | None:
        """Return the calls of a body as the offered tools show them; None if they turn out to be text."""
        bare, offered = self._bare, self._offered
        self._bare = ""
        if items is None:
            self._bare_broke = self._bare_broke or bool(bare and (body.back or body.is_broken))
            return None
        names = frozenset[str]() if offered is None else offered.names
        if bare and not (bare == "own" and body.native) and not any(item.name in names for item in items):
            return None
        if body.is_fence and self._spoke:
            # An example or a call: only the model knows.
            problem = "a call in a code fence is not made: write it as your instructions say, or say that it is text"
            return [InvalidCall("", items[0].name, "", problem)]
        return items if offered is None else [offered.fill(item) for item in items]

    def _close(self, body: Body, items: Sequence[ToolCall | InvalidCall] | None) -> None:
        items = self._meant(body, items)
        if items is None and body.is_fence:
            self._reread_fence(body)
            return
        quoted = self._body_quoted and items is not None
        if items is None or quoted:
            self._say(body.raw())
            self._note(body.raw())
            self._after_quoted = quoted
        else:
            if len(items) == 1 and isinstance(items[0], InvalidCall):
                # All that the model wrote, the markers too: a history shows it the mistake as it was made.
                items = [replace(items[0], raw=body.raw()[:RAW_LIMIT])]
            kept = self._span or self._pending or self.sources is not None
            self._call(body.raw() if kept else "", items, body.native)
            self._before, self._after_quoted = "", False
        if body.back:
            self._buffer = body.back + self._buffer[self._at :]
            self._at = 0

    def _reread_fence(self, body: Body) -> None:
        """Read a fence as every other one: it holds no call."""
        line, _, rest = body.raw().partition("\n")
        self._settle(quoted=False)
        self._say(f"{line}\n")
        self._note(f"{line}\n")
        self._mode, self._fence = _Mode.FENCE, _Fence("`", 3, self._opened_at, at="indent")
        self._quoted_line = self._span_in_line = False
        self._buffer = rest + self._buffer[self._at :]
        self._at = 0
