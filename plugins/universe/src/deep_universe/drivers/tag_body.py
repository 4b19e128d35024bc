"""Calls whose arguments stand in tags, and the tags around several calls."""

from __future__ import annotations

import re
from collections.abc import Callable

from ..calls import InvalidCall, ToolCall
from .json_body import invalid
from .scanner import RAW_LIMIT, Body, partial_pattern

__all__ = ["Envelope", "EnvelopeTags", "TagBody", "Tags"]


class Tags:
    """The tags of one call.

    Arguments:
        opener: what opens the next call: a call that reaches it was never closed.
        closer: what closes the call.
        value: the tags around a value. A value may hold an opener; it never starts a call there.
        parse: reads the whole markup between opener and closer.
        own: matches the start of a body of this dialect.
    """

    def __init__(
        self,
        opener: str,
        closer: str,
        parse: Callable[[str], ToolCall | InvalidCall],
        *,
        value: tuple[str, str],
        own: re.Pattern[str] = re.compile(""),
    ) -> None:
        self.opener, self.closer, self.value, self.parse, self.own = opener, closer, value, parse, own
        tags = sorted({opener, closer, *value}, key=len, reverse=True)
        self.search = re.compile("|".join(map(re.escape, tags)))
        self.tail = partial_pattern(tags)
        self.longest = max(map(len, tags))


class TagBody(Body):
    """Everything up to the closing tag. A value that holds a tag of a call must escape it."""

    def __init__(self, tags: Tags, opening: str) -> None:
        super().__init__(opening)
        self._tags = tags
        self._parts: list[str] = []
        self._in_value = self._nested = False
        self._quoted_calls = 0
        self._blank = True
        self._ended_by = ""

    def read(self, text: str, position: int, final: bool) -> int:
        """Read up to the tag that closes the call."""
        tags = self._tags
        while True:
            found = tags.search.search(text, position)
            end = found.end() if found else len(text)
            self.examined += end - position
            if not final and end > len(text) - tags.longest:
                start = max(position, len(text) - tags.longest)
                self.examined += len(text) - start
                tail = tags.tail.search(text, start)
                if tail and (not found or tail.start() <= found.start()):
                    self._keep(text[position : tail.start()])
                    return tail.start()
            if not found:
                self._keep(text[position:])
                return len(text)
            self._keep(text[position : found.start()])
            if found[0] == tags.opener and self._blank:
                self._parts, position = [], end  # the model stuttered: the call begins here
                continue
            if self._ends(found[0]):
                self.done, self._ended_by = True, found[0]
                return end if found[0] == tags.closer else found.start()
            self._keep(found[0])
            position = end

    def _ends(self, tag: str) -> bool:
        """Whether a tag ends the call. A value may quote calls: they are part of it, up to the last one's end."""
        tags = self._tags
        if tag == tags.opener:
            self._quoted_calls += self._in_value
            self._nested = self._nested or self._in_value
            return not self._in_value
        if tag == tags.closer:
            self._quoted_calls -= 1
            return self._quoted_calls < 0
        if not self._quoted_calls:
            self._nested = self._nested or self._in_value == (tag == tags.value[0])
            self._in_value = tag == tags.value[0]
        return False

    def _keep(self, part: str) -> None:
        self._parts.append(part)
        self._blank = self._blank and not part.strip()

    def _written(self) -> str:
        written = "".join(self._parts)
        self.native = not written[:RAW_LIMIT].strip() or self._tags.own.match(written) is not None
        return written

    def items(self) -> list[ToolCall | InvalidCall]:
        """The call between the tags."""
        written = self._written()
        if self._ended_by == self._tags.opener:
            return [self._invalid(written, f"the call is not closed with {self._tags.closer}")]
        if self._in_value:
            return [self._invalid(written, f"a value is not closed with {self._tags.value[1]}")]
        if self._nested:
            return [
                self._invalid(
                    written, 'a value holds a tag of a call: write it as a JSON string, with "\\u003c" for "<"'
                )
            ]
        return [self._tags.parse(written)]

    def _invalid(self, written: str, problem: str) -> InvalidCall:
        parsed = self._tags.parse(written[:RAW_LIMIT])
        return invalid(self.opening + written[:RAW_LIMIT], problem, parsed.name)

    def cut_off(self) -> list[ToolCall | InvalidCall]:
        """An invalid call, even if all values are complete."""
        problem = f"the reply was cut off before {self._tags.closer}: write the call again, shorter if it is long"
        return [self._invalid(self._written(), problem)]

    def raw(self) -> str:
        """The markup as the model wrote it."""
        return self.opening + "".join(self._parts) + (self._ended_by if self._ended_by == self._tags.closer else "")


class EnvelopeTags:
    """The tags around several calls.

    Arguments:
        calls: what opens a call inside.
        closer: what closes the envelope.
    """

    def __init__(self, calls: tuple[str, ...], closer: str) -> None:
        self.closer = closer
        self.first = re.compile(r"\s*+(?:(" + "|".join(map(re.escape, (*calls, closer))) + r")|(?=\S))")
        self.call_tail = partial_pattern((*calls, closer))
        self.closer_tail = partial_pattern((closer,))
        self.longest = max(map(len, (*calls, closer)))


class Envelope(Body):
    """The tag that opens an envelope, up to the first call.

    If anything else comes first, all of the envelope is one invalid call: what it holds may be quoted.
    """

    def __init__(self, tags: EnvelopeTags, opening: str) -> None:
        super().__init__(opening)
        self._tags = tags
        self._parts: list[str] = []
        self._empty = True
        self._closed = False

    def read(self, text: str, position: int, final: bool) -> int:
        """Read up to the first call inside, or else to the end of the envelope."""
        if self._empty:
            found = self._tags.first.match(text, position)
            start = found.end() if found else len(text)
            self.examined += start - position + 1
            if found and found[1] and found[1] != self._tags.closer:
                self._parts.append(text[position : found.start(1)])
                self.done = True
                return found.start(1)
            self._parts.append(text[position : found.start(1) if found and found[1] else start])
            position = found.start(1) if found and found[1] else start
            if not found or (not final and self._tags.call_tail.match(text, position)):
                return position
            self._empty = False
        closer = self._tags.closer
        end = text.find(closer, position)
        self.examined += (end + len(closer) if end >= 0 else len(text)) - position
        if end >= 0:
            self._parts.append(text[position:end])
            self.done = self._closed = True
            return end + len(closer)
        end = len(text)
        if not final:
            tail = self._tags.closer_tail.search(text, max(position, end - self._tags.longest))
            end = tail.start() if tail else end
        self._parts.append(text[position:end])
        return end

    def items(self) -> list[ToolCall | InvalidCall]:
        """Nothing, if a call follows at once."""
        if self._empty:
            return []
        return [self._invalid(f"there is no call directly after {self.opening}")]

    def cut_off(self) -> list[ToolCall | InvalidCall]:
        """An invalid call: one was about to begin."""
        return [self._invalid("the reply was cut off before the call: write it again")]

    def _invalid(self, problem: str) -> InvalidCall:
        written = "".join(self._parts)
        self.native = not written.strip()
        return invalid(self.opening + written[:RAW_LIMIT], problem)

    def raw(self) -> str:
        """The markup as the model wrote it."""
        return self.opening + "".join(self._parts) + (self._tags.closer if self._closed else "")
