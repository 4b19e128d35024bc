"""Read a reply: what is text to show, what is a call, and what is a call written wrongly."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from deep_universe import InvalidCall, ReasoningTag, ToolCall, ToolResult, UnopenedTag

if TYPE_CHECKING:
    from deep_universe import TextDriver
    from pydantic_ai.tools import ToolDefinition

__all__ = ["LeakReader", "MisreadCall", "Piece", "ReplyReader", "result_marker"]

SHORTEST = 8
"""The fewest characters that mark a result; fewer may begin any text."""
LISTED = 40
"""The most names that the answer to an unknown name lists."""
RAW = 2_000
"""The most characters of a call that a history keeps."""
NAMED = 64
"""The most characters of an unknown name that the answer repeats."""


@dataclass(frozen=True)
class MisreadCall(InvalidCall):
    """A call written wrongly, with what the reply has there.

    Attributes:
        source: the whole markup; empty for each further call of one marker.
    """

    source: str = ""


Piece: TypeAlias = "str | ToolCall | MisreadCall"


class ReplyReader:
    """Reads one text of a reply, in chunks of any size.

    White space around calls and tags of reasoning belongs to the markup: it is dropped, so that no text begins before
    it is sure that one follows. A model that goes on after its calls with results of its own invents them: from there
    on nothing counts, also no call. An `UnopenedTag` says that all before it was reasoning: no call before it counts.

    Args:
        driver: the dialect.
        tools: what the model may call. A call of another tool is a `MisreadCall`.
    """

    def __init__(self, driver: TextDriver, tools: Sequence[ToolDefinition]) -> None:
        self._driver = driver
        self._names = frozenset(tool.name for tool in tools)
        self._scanner = driver.scanner(tools)
        self._sources: deque[tuple[str, int]] = deque()
        self._scanner.sources = self._sources
        self._source: str | None = ""
        """The markup of the present marker until it is told; None after a good call of it."""
        self._left = 0
        """Calls of the present marker that are still to come."""
        self._result = result_marker(driver)
        self._held: list[str] = []
        """White space, shown if text follows; or, after a call, what may begin an invented result."""
        self._after_markup = False
        self._after_call = False
        self._ended = False

    def feed(self, chunk: str) -> list[Piece]:
        """Return what the chunk completes, in order."""
        return self._tidy(self._scanner.feed(chunk))

    def finish(self) -> list[Piece]:
        """Return the rest. A call that is not closed is a `MisreadCall`."""
        pieces = self._tidy(self._scanner.finish())
        held = "".join(self._held)
        return [*pieces, held] if held and not (self._after_markup and held.isspace()) else pieces

    def _tidy(self, found: Iterable[str | ToolCall | InvalidCall]) -> list[Piece]:
        out: list[Piece] = []
        for item in found:
            piece = item if isinstance(item, str) else self._judge(item)
            if isinstance(piece, UnopenedTag):
                out.append(piece)
                piece = str(piece)
                self._ended = self._after_call = False
            if self._ended:
                continue
            if isinstance(piece, str) and not isinstance(piece, ReasoningTag):
                if text := self._text(piece):
                    out.append(text)
                continue
            if (held := "".join(self._held)).strip():
                out.append(held)
            self._held, self._after_markup = [], True
            self._after_call = not isinstance(piece, str)
            out.append(piece)
        return out

    def _text(self, piece: str) -> str:
        """Return what of a text is shown now."""
        if not self._after_markup and (not piece or piece.isspace()):
            self._held.append(piece)  # joined when text follows: some models end in thousands of blanks
            return ""
        text = "".join([*self._held, piece])
        if self._after_markup:
            text = text.lstrip()
        if self._after_call and self._result:
            if text.startswith(self._result):
                self._ended, self._held = True, []
                return ""
            if self._result.startswith(text):
                self._held = [text]
                return ""
        shown = text.rstrip()
        self._held = [text[len(shown) :]]
        if shown:
            self._after_markup = self._after_call = False
        return shown

    def _judge(self, call: ToolCall | InvalidCall) -> Piece:
        if not self._left:
            self._source, self._left = self._sources.popleft()
        self._left -= 1
        if isinstance(call, ToolCall):
            if call.name in self._names:
                self._source = None
                return call
            known = sorted(self._names)
            more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
            name = call.name[:NAMED]
            problem = f"there is no tool {name!r}; the tools are: {', '.join(known[:LISTED])}{more}"
            call = InvalidCall(call.id, name, self._driver.encode_calls([call])[:RAW], problem)
        source, self._source = self._source, self._source and ""
        told = call.raw if source is None else source
        return MisreadCall(call.id, call.name, call.raw, call.problem, source=told)


@cache
def result_marker(driver: TextDriver) -> str:
    """Return what every message with results begins with in a dialect; empty if it is nothing to recognize."""
    written = (
        driver.encode_results([ToolResult("", "x", meta={"tool": "a"})]),
        driver.encode_results([ToolResult("", error="y", meta={"tool": "b"})]),
    )
    common = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], zip(*written, strict=False)))
    common = common.partition("{")[0].partition("\n")[0].strip()
    return common if len(common) >= SHORTEST else ""


class LeakReader(ReplyReader):
    """Reads the text of a model that has tool calls: only a well-formed call of an offered tool is one.

    It must begin a line, too: what stands within a sentence is more likely a quotation.
    """

    def __init__(self, driver: TextDriver, tools: Sequence[ToolDefinition]) -> None:
        super().__init__(driver, tools)
        self._scanner.line_start = True

    def _judge(self, call: ToolCall | InvalidCall) -> Piece:
        piece = super()._judge(call)
        return piece.source if isinstance(piece, MisreadCall) else piece
