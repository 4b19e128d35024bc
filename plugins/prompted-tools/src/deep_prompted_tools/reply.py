"""Read a reply: what is text to show, what is a call, and what is a call written wrongly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from deep_universe import InvalidCall, ToolCall

if TYPE_CHECKING:
    from deep_universe import TextDriver
    from pydantic_ai.tools import ToolDefinition

__all__ = ["LeakReader", "Piece", "ReplyReader"]

Piece: TypeAlias = "str | ToolCall | InvalidCall"
LISTED = 40
"""The most names that the answer to an unknown name lists."""


class ReplyReader:
    """Reads one text of a reply, in chunks of any size.

    White space around calls and tags of reasoning belongs to the markup: it is dropped, so that no text begins before
    it is sure that one follows.

    Args:
        driver: the dialect.
        tools: what the model may call. A call of another tool is an `InvalidCall`.
    """

    def __init__(self, driver: TextDriver, tools: Sequence[ToolDefinition]) -> None:
        self._driver = driver
        self._names = frozenset(tool.name for tool in tools)
        self._scanner = driver.scanner(tools)
        self._tags = {tag for pair in driver.reasoning for tag in pair}
        self._space = ""
        """White space that is shown if text follows."""
        self._after_markup = False

    def feed(self, chunk: str) -> list[Piece]:
        """Return what the chunk completes, in order."""
        return self._tidy(self._scanner.feed(chunk))

    def finish(self) -> list[Piece]:
        """Return the rest. A call that is not closed is an `InvalidCall`."""
        pieces = self._tidy(self._scanner.finish())
        if self._space and not self._after_markup:
            pieces.append(self._space)
        return pieces

    def _tidy(self, found: Iterable[Piece]) -> list[Piece]:
        out: list[Piece] = []
        for piece in map(self._judge, found):
            if not isinstance(piece, str) or piece in self._tags:
                self._space, self._after_markup = "", True
                out.append(piece)
                continue
            text = piece.rstrip()
            if not text:
                self._space += piece
                continue
            text = text.lstrip() if self._after_markup else self._space + text
            self._space, self._after_markup = piece[len(piece.rstrip()) :], False
            out.append(text)
        return out

    def _judge(self, piece: Piece) -> Piece:
        if not isinstance(piece, ToolCall) or piece.name in self._names:
            return piece
        known = sorted(self._names)
        more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
        problem = f"there is no tool {piece.name!r}; the tools are: {', '.join(known[:LISTED])}{more}"
        return InvalidCall(piece.id, piece.name, self._driver.encode_calls([piece]), problem)


class LeakReader(ReplyReader):
    """Reads the text of a model that has tool calls: only a well-formed call of an offered tool is one."""

    def _judge(self, piece: Piece) -> Piece:
        piece = super()._judge(piece)
        return piece.raw if isinstance(piece, InvalidCall) else piece
