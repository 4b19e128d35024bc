"""Markdown on a terminal: no empty line twice, and no cell of a table cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from rich.markdown import CodeBlock, Heading, Markdown, TableElement
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table

from deep_core.plugin_api import visible

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult

__all__ = ["Shown"]


class Shown:
    """Markdown, made visible once it is rendered: `&#27;` in a text is no control character before."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        # No hyperlinks: a link would hide its address.
        shown = _Markdown(visible(self._text), code_theme="ansi_dark", hyperlinks=False)
        parts = [
            Segment(visible(text), style) for text, style, control in console.render(shown, options) if not control
        ]
        lines = [*Segment.split_lines(parts)]
        while lines and not _has_text(lines[0]):
            del lines[0]
        while lines and not _has_text(lines[-1]):
            del lines[-1]
        for line in lines:
            yield from line
            yield Segment.line()


def _has_text(line: Iterable[Segment]) -> bool:
    return any(segment.text.strip() for segment in line)


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for table in super().__rich_console__(console, options):
            if isinstance(table, Table):
                table.show_edge, table.pad_edge = False, True
                for column in table.columns:
                    column.overflow = "fold"
            yield table


class _Markdown(Markdown):
    elements: ClassVar[Any] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "table_open": _Table,
    }
