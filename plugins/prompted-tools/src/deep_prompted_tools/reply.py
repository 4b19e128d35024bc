"""Read a reply: what is text to show, what is a call, and what is a call written wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from itertools import takewhile
from typing import TYPE_CHECKING, TypeAlias

from deep_universe import InvalidCall, ToolCall, ToolResult

if TYPE_CHECKING:
    from deep_universe import TextDriver
    from pydantic_ai.tools import ToolDefinition

__all__ = ["LeakReader", "Piece", "ReplyReader", "result_marker"]

Piece: TypeAlias = "str | ToolCall | InvalidCall"
SHORTEST = 8
"""The fewest characters that mark a result; fewer may begin any text."""
LISTED = 40
"""The most names that the answer to an unknown name lists."""


class ReplyReader:
    """Reads one text of a reply, in chunks of any size.

    White space around calls and tags of reasoning belongs to the markup: it is dropped, so that no text begins before
    it is sure that one follows. A model that goes on after its calls with results of its own invents them: from there
    on nothing counts, also no call.

    Args:
        driver: the dialect.
        tools: what the model may call. A call of another tool is an `InvalidCall`.
    """

    def __init__(self, driver: TextDriver, tools: Sequence[ToolDefinition]) -> None:
        self._driver = driver
        self._names = frozenset(tool.name for tool in tools)
        self._scanner = driver.scanner(tools)
        self._tags = {tag for pair in driver.reasoning for tag in pair}
        self._result = result_marker(driver)
        self._held = ""
        """White space, shown if text follows; or, after a call, what may begin an invented result."""
        self._after_markup = False
        self._after_call = False
        self._ended = False

    def feed(self, chunk: str) -> list[Piece]:
        """Return what the chunk completes, in order."""
        return self._tidy(self._scanner.feed(chunk))

    def finish(self) -> list[Piece]:
        """Return the rest. A call that is not closed is an `InvalidCall`."""
        pieces = self._tidy(self._scanner.finish())
        held = self._held if not self._after_markup or self._held.strip() else ""
        return [*pieces, held] if held else pieces

    def _tidy(self, found: Iterable[Piece]) -> list[Piece]:
        out: list[Piece] = []
        for piece in map(self._judge, found):
            if self._ended:
                break
            if isinstance(piece, str) and piece not in self._tags:
                if text := self._text(piece):
                    out.append(text)
                continue
            if self._held.strip():
                out.append(self._held)
            self._held, self._after_markup = "", True
            self._after_call = not isinstance(piece, str)
            out.append(piece)
        return out

    def _text(self, piece: str) -> str:
        """Return what of a text is shown now."""
        text = self._held + piece
        if self._after_markup:
            text = text.lstrip()
        if self._after_call and self._result:
            if text.startswith(self._result):
                self._ended, self._held = True, ""
                return ""
            if self._result.startswith(text):
                self._held = text
                return ""
        shown = text.rstrip()
        self._held = text[len(shown) :]
        if shown:
            self._after_markup = self._after_call = False
        return shown

    def _judge(self, piece: Piece) -> Piece:
        if not isinstance(piece, ToolCall) or piece.name in self._names:
            return piece
        known = sorted(self._names)
        more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
        problem = f"there is no tool {piece.name!r}; the tools are: {', '.join(known[:LISTED])}{more}"
        return InvalidCall(piece.id, piece.name, self._driver.encode_calls([piece]), problem)


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
    """Reads the text of a model that has tool calls: only a well-formed call of an offered tool is one."""

    def _judge(self, piece: Piece) -> Piece:
        piece = super()._judge(piece)
        return piece.raw if isinstance(piece, InvalidCall) else piece
