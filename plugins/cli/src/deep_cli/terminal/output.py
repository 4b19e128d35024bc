"""Write to the screen. No other module does, and no text passes without `visible`."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from io import StringIO
from typing import IO, TYPE_CHECKING, Any, Protocol, TextIO, TypeAlias

from deep_core.plugin_api import visible

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

__all__ = ["Foot", "Lines", "Part", "as_json", "ask", "ask_hidden", "confirm", "say", "say_json", "say_text"]

Part: TypeAlias = "str | tuple[str, str]"
"""A text, or a text and its style: `bold`, `dim` or a color."""
FOOT = 12
"""Most lines of an unfinished text below the printed ones."""
REPAINTS = 8
"""Of the foot, in a second."""


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


def ask_hidden(question: str) -> str:
    """Ask for a text that is not shown while it is typed."""
    import click

    return click.prompt(visible(question), hide_input=True, err=True)


def ask(
    question: str,
    *,
    default: str,
    parse: Callable[[str], Any] | None = None,
    among: Sequence[str] = (),
    err: bool = False,
) -> Any:
    """Ask for a text; Enter takes the default.

    Args:
        question: the text before it.
        default: the answer of Enter.
        parse: checks and converts an answer.
        among: the possible answers; all if empty.
        err: on stderr instead of stdout.
    """
    import click

    choice = click.Choice(among) if among else None
    return click.prompt(visible(question), default=visible(default), value_proc=parse, type=choice, err=err)


class Foot(Protocol):
    """What is below the printed lines and changes: the end of an unfinished text, and the status."""

    def show(self, tail: Sequence[str], status: Callable[[], str]) -> None:
        """Show it, instead of what was shown before.

        Args:
            tail: the last lines of the unfinished text, with the terminal's codes for styles.
            status: returns the status line as it is now.
        """
        ...

    def hide(self) -> None:
        """Show nothing."""
        ...


class Lines:
    """Lines for people on one stream, with styles, Markdown, a foot and tables. Never markup: texts may have brackets.

    Args:
        stream: a terminal or a file; None for stdout.
        wrap: whether to break lines at the width.
        foot: shows what changes; None for the lines below the printed ones.
    """

    def __init__(self, stream: TextIO | None = None, *, wrap: bool = False, foot: Foot | None = None) -> None:
        from rich.console import Console

        self._console = Console(file=stream, highlight=False, soft_wrap=not wrap, emoji=False)
        self._foot = foot
        # The foot has a thread. rich's own locks let a line and a repaint mix: on a busy machine an answer stood twice.
        self._writing = threading.RLock()
        self.is_terminal = self._console.is_terminal
        self.encoding = self._console.encoding

    @property
    def width(self) -> int:
        """The terminal's width now."""
        return self._console.width

    def line(self, *parts: Part, end: str = "\n", wrap: bool = False) -> None:
        """Print a line.

        Args:
            parts: the text.
            end: what ends it.
            wrap: on a terminal, break it between words. Without, it is exact, and the terminal breaks it.
        """
        lines = [_text(*parts)]
        if wrap and self.is_terminal:
            lines = [piece for line in lines[0].split("\n", allow_blank=True) for piece in _broken(line, self.width)]
        with self._writing:
            for line in lines:
                self._console.print(line, end=end)

    def control(self, sequence: str) -> None:
        """Send a control sequence to the terminal: never one that a text contains."""
        with self._writing:
            self._console.file.write(sequence)
            self._console.file.flush()

    def markdown(self, text: str) -> None:
        """Print Markdown."""
        from .markdown import Shown

        with self._writing:
            self._console.print(Shown(text), soft_wrap=False)

    def show_foot(self, tail: str, status: Callable[[], str]) -> None:
        """Show the end of an unfinished Markdown text, and a status line; both are replaced by the next."""
        lines = list[str]()
        if tail:
            most = max(1, min(FOOT, self._console.height - 6))
            lines = self._as_ansi(tail)[-most:]
        if self._foot is None:
            self._foot = _LiveFoot(self._console, self._writing)
        self._foot.show(lines, lambda: visible(status()))

    def _as_ansi(self, text: str) -> list[str]:
        from rich.console import Console

        from .markdown import Shown

        system: Any = self._console.color_system
        page = StringIO()
        shadow = Console(file=page, force_terminal=True, color_system=system, width=self.width, emoji=False)
        shadow.no_color = self._console.no_color
        shadow.print(Shown(text))
        return page.getvalue().rstrip("\n").split("\n")

    def hide_foot(self) -> None:
        """Remove the foot, if there is one."""
        if self._foot is not None:
            self._foot.hide()

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
        with self._writing:
            self._console.print(table)


class _LiveFoot:
    """A foot below what one console prints.

    Args:
        console: prints.
        writing: is held while something is printed.
    """

    def __init__(self, console: Console, writing: threading.RLock) -> None:
        self._console, self._writing = console, writing
        self._live: Live | None = None
        self._over = threading.Event()
        self._tail: Sequence[str] = ()
        self._status: Callable[[], str] = str

    def show(self, tail: Sequence[str], status: Callable[[], str]) -> None:
        self._tail, self._status = tail, status
        if self._live is None:
            from rich.live import Live

            self._live = Live(
                get_renderable=self._render,
                console=self._console,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
                auto_refresh=False,
            )
            with self._writing:
                self._live.start()
            self._over = threading.Event()
            threading.Thread(target=self._repaint, args=(self._live, self._over), daemon=True).start()

    def hide(self) -> None:
        if self._live is not None:
            with self._writing:
                self._over.set()
                self._live.stop()
            self._live = None

    def _repaint(self, live: Live, over: threading.Event) -> None:
        while not over.wait(1 / REPAINTS):
            with self._writing:
                if not over.is_set():
                    live.refresh()

    def _render(self) -> Text:
        from rich.text import Text

        lines = [Text.from_ansi(line) for line in self._tail]
        lines.append(Text(visible(self._status()), "dim"))
        return Text("\n", no_wrap=True, overflow="ellipsis").join(lines)


def _broken(line: Text, width: int) -> Iterator[Text]:
    """Break a line at a space near the width, else at the width; what follows is indented further than its begin."""
    from rich.cells import cell_len
    from rich.text import Text

    plain, start, room = line.plain, 0, width
    indent = len(plain) - len(plain.lstrip()) + 2
    indent = indent if indent < width // 3 else 0
    ends = list[int]()
    while cell_len(plain[start:]) > room:
        piece = plain[start : start + room]
        while cell_len(piece) > room:
            piece = piece[:-1]
        space = piece.rfind(" ") + 1
        start += space if space > len(piece) // 2 else len(piece) or 1
        ends.append(start)
        room = max(1, width - indent)
    for number, piece in enumerate(line.divide(ends)):
        if piece.plain.endswith(" ") and number < len(ends):
            piece.right_crop(1)
        yield Text.assemble(" " * indent, piece) if number else piece


def _text(*parts: Part) -> Text:
    from rich.text import Text

    return Text.assemble(*(visible(p) if isinstance(p, str) else (visible(p[0]), p[1]) for p in parts))
