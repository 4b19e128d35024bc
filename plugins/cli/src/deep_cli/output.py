"""Write to the screen. No other module does, and no text passes without `visible`."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, TextIO, TypeAlias

from deep_core.plugin_api import visible

if TYPE_CHECKING:
    from rich.status import Status
    from rich.text import Text

__all__ = ["Lines", "Part", "as_json", "ask", "confirm", "say", "say_json", "say_text"]

Part: TypeAlias = "str | tuple[str, str]"
"""A text, or a text and its style: `bold`, `dim` or a color."""


def say(*parts: Part, err: bool = False, end: str = "\n", file: IO[Any] | None = None) -> None:
    """Print a text for people.

    Args:
        parts: the text.
        err: on stderr instead of stdout.
        end: what ends it.
        file: on this stream instead.
    """
    import click

    click.echo("".join(map(_styled, parts)) + end, err=err, nl=False, file=file)


def _styled(part: Part) -> str:
    import click

    if isinstance(part, str):
        return visible(part)
    text, style = part
    if style in ("bold", "dim"):
        return click.style(visible(text), bold=style == "bold" or None, dim=style == "dim" or None)
    return click.style(visible(text), fg=style)


def say_text(text: str, stream: TextIO, end: str = "\n") -> None:
    """Print a text for people and programs: a file gets it unchanged, a terminal without hidden characters."""
    stream.write((visible(text) if stream.isatty() else text) + end)
    stream.flush()


def say_json(value: object) -> None:
    """Print a value as JSON on stdout."""
    import click

    click.echo(as_json(value))


def as_json(value: object) -> str:
    """Return the value as JSON with escapes for hidden characters: a program reads the same value."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    return text if visible(text) == text else json.dumps(value, indent=2).replace("\x7f", "\\u007f")


def confirm(question: str) -> None:
    """Ask for a yes.

    Raises:
        click.Abort: the answer is no.
    """
    import click

    click.confirm(visible(question), abort=True)


def ask(question: str, *, default: str, parse: Callable[[str], Any] | None = None, among: Sequence[str] = ()) -> Any:
    """Ask for a text; Enter takes the default.

    Args:
        question: the text before it.
        default: the answer of Enter.
        parse: checks and converts an answer.
        among: the possible answers; all if empty.
    """
    import click

    choice = click.Choice(among) if among else None
    return click.prompt(visible(question), default=visible(default), value_proc=parse, type=choice)


class Lines:
    """Lines for people on one stream, with styles, a status line and tables. Never markup: texts may have brackets.

    Args:
        stream: a terminal or a file; None for stdout.
        wrap: whether to break lines at the width.
    """

    def __init__(self, stream: TextIO | None = None, *, wrap: bool = False) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, soft_wrap=not wrap, emoji=False)
        self._status: Status | None = None
        self.is_terminal = self._console.is_terminal
        self.encoding = self._console.encoding

    @property
    def width(self) -> int:
        """The terminal's width now."""
        return self._console.width

    def line(self, *parts: Part, end: str = "\n") -> None:
        """Print a line."""
        self._console.print(_text(*parts), end=end)

    def show_status(self, text: str) -> None:
        """Show the status line, or change its text."""
        if self._status is None:
            self._status = self._console.status(_text(text))
            self._status.start()
        else:
            self._status.update(_text(text))

    def stop_status(self) -> None:
        """Remove the status line, if there is one."""
        if self._status is not None:
            self._status.stop()
            self._status = None

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], *, right: str = "") -> None:
        """Print a table.

        Args:
            columns: their titles.
            rows: the cells.
            right: the column that is aligned at the right.
        """
        from rich.table import Table

        table: Any = Table(box=None, padding=(0, 0, 0, 2))
        for column in columns:
            justify = "right" if column == right else "left"
            table.add_column(_text(column), header_style="dim", justify=justify, overflow="fold")
        for row in rows:
            table.add_row(*map(_text, row))
        self._console.print(table)


def _text(*parts: Part) -> Text:
    from rich.text import Text

    return Text.assemble(*(visible(p) if isinstance(p, str) else (visible(p[0]), p[1]) for p in parts))
