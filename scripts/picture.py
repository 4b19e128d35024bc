"""Draw docs/assets/demo.svg from a real run of `deep demo` on a terminal: `python scripts/picture.py`."""

from __future__ import annotations

import fcntl
import html
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Iterable
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parent.parent / "docs" / "assets" / "demo.svg"
COLUMNS, LINES = 100, 32
SCREEN = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img" \
aria-label="A terminal: ABOUT">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""
"""What rich fills in, and `draw` (ABOUT). Rich's own picture loads a font from another site."""
ABOUT = "deep demo finds a failing test, fixes the code and shows what it did."


def record() -> str:
    """Return what `deep demo` writes to a terminal, with its escape sequences."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    command = [sys.executable, "-m", "deep_cli", "demo"]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as demo:
        os.close(theirs)
        written = bytearray()
        while True:
            try:
                block = os.read(ours, 65_536)
            except OSError:  # Linux says so at the end
                break
            if not block:
                break
            written += block
    os.close(ours)
    if demo.returncode:
        raise SystemExit(f"deep demo ended with exit code {demo.returncode}:\n{written.decode()}")
    return written.decode()


def shown(written: str) -> list[str]:
    """Return the lines that stay on the screen, with their colors: a status line is written over."""
    lines = [re.sub(r"[^\n]*\r\x1b\[2K", "", line.rstrip("\r")) for line in written.split("\n")]
    kept = [re.sub(r"\x1b\[(?![0-9;]*m)[?0-9;]*[A-Za-z]", "", line) for line in lines]
    folder = next(match[0] for line in kept if (match := re.search(r"/\S*/deep-demo-\w+", line)))
    begin = next(number for number, line in enumerate(kept) if "model demo:tour, backend" in line) - 1
    return [line.replace(folder, "~/deep-demo") for line in kept[begin : begin + LINES]]


def draw(lines: Iterable[Text], title: str, about: str, columns: int = COLUMNS) -> str:
    """Return the picture of these lines, with the title of the window and a sentence for those who do not see it."""
    console = Console(record=True, width=columns, file=StringIO(), force_terminal=True, color_system="truecolor")
    for line in [*lines, Text()]:  # the edge would cut the feet of the last line
        console.print(line, overflow="fold", highlight=False)
    screen = SCREEN.replace("ABOUT", html.escape(about))
    return console.export_svg(title=title, code_format=screen, unique_id="deep")


if __name__ == "__main__":
    PICTURE.write_text(draw(map(Text.from_ansi, shown(record())), "deep demo", ABOUT), encoding="utf-8")
    print(PICTURE.relative_to(Path.cwd()))
