"""Draw the pictures of docs/terminal.md from a real chat on a terminal: `python -m scripts.terminal_pictures`."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Any

from rich.style import Style
from rich.text import Text

from plugins.cli.tests.chat_terminal import Terminal
from plugins.cli.tests.conftest import made
from plugins.cli.tests.guide import walk
from scripts.picture import draw

ASSETS = Path(__file__).resolve().parent.parent / "docs" / "assets"
SIZE = (108, 46)
FIRST = {
    "approval": "deep chat",
    "edit": "> Which test fails",
    "answer": "  · approved",
    "steering": "> Is the change log",
}
"""Each picture, and the line that it begins with."""
ABOUT = {
    "approval": "the agent wants to run the tests, and asks.",
    "edit": "the tests fail, the agent wants to change a line, and asks with its diff.",
    "answer": "the tests fail, the agent changes a line, runs the tests again and answers.",
    "steering": "one message steers the agent at work, another one waits for its turn.",
}


def style_of(cell: Any) -> Style:
    """Return the style of a character of the emulator, which calls yellow brown."""
    color = re.sub("brown$", "yellow", re.sub("^bright(?=.)", "bright_", cell.fg))
    return Style(color=None if color == "default" else color, bold=cell.bold, italic=cell.italics)


def line_of(cells: Iterable[Any]) -> Text:
    """Return a line of the emulator with its colors."""
    line = Text()
    for style, same in groupby(cells, style_of):
        line.append("".join(cell.data for cell in same), style)
    line.rstrip()
    return line


def main() -> None:
    """Draw them."""
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory).resolve()
        deep = made(root, "backends", "filesystem", "summarization")

        def picture(name: str, terminal: Terminal) -> None:
            lines = [line_of(cells) for cells in terminal.cells]
            begin = min(number for number, line in enumerate(lines) if line.plain.startswith(FIRST[name]))
            shown = [named(line, str(root / "work"), "~/invoices") for line in lines[begin:]]
            path = ASSETS / f"terminal-{name}.svg"
            path.write_text(draw(shown, "deep", ABOUT[name], SIZE[0]), encoding="utf-8")
            print(path.relative_to(Path.cwd()))

        walk(deep, SIZE, picture)


def named(line: Text, folder: str, name: str) -> Text:
    """Return a line with another name for the folder."""
    begin = line.plain.find(folder)
    if begin < 0:
        return line
    before, _, after = line.divide([begin, begin + len(folder)])
    return Text.assemble(before, (name, before.spans[-1].style), after)


if __name__ == "__main__":
    main()
