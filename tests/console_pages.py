"""Types what a page says, as a reader would, and holds the page to what is printed.

In a ```` ```console ```` block a line that begins with `$ ` is typed into a shell, in one folder after the other (`cd`)
and with what was exported before. The lines below it are what is printed, stdout and stderr as they come; `…` in a line
stands for anything, and on a line of its own for any lines. A command with nothing below it may print what it likes. A
command whose comment says `# fails` exits with another code than 0, every other one with 0. A block with a title is
written to that file, as a reader's editor would. `<!-- console-model: [...] -->`, which readers do not see, are the
turns of the model that answers.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.docs_pages import Block, blocks

__all__ = ["Typed", "console_turns", "matches", "play", "typed"]

TURNS = re.compile(r"<!-- console-model: (.*?) -->", re.S)
FAILS = "# fails"


@dataclass(frozen=True)
class Typed:
    """One command of a page, and what the page says it prints (None: nothing is said)."""

    command: str
    output: tuple[str, ...] | None
    line: int

    @property
    def fails(self) -> bool:
        """Whether the page says that it fails."""
        return self.command.endswith(FAILS)


def console_turns(page: Path) -> list[Any]:
    """What the model answers on this page, as `Script.from_json` takes it."""
    return [turn for text in TURNS.findall(page.read_text(encoding="utf-8")) for turn in json.loads(text)]


def typed(block: Block) -> Iterator[Typed]:
    """The commands of a console block."""
    lines = block.code.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)][: len(starts)], strict=True):
        said = tuple(lines[start + 1 : end])
        while said and not said[-1].strip():
            said = said[:-1]
        yield Typed(lines[start].removeprefix("$ "), said or None, block.line + start)


def matches(said: tuple[str, ...], printed: str) -> bool:
    """Whether the lines of a page stand for what was printed."""
    pattern = ""
    for line in said:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*?"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.rstrip().split("…")) + r"[ ]*\n"
    return re.fullmatch(pattern, printed if printed.endswith("\n") or not printed else f"{printed}\n") is not None


def play(page: Path, folder: Path, variables: Mapping[str, str]) -> list[Typed]:
    """Type all of it, beginning in a folder with these environment variables; returns what was typed.

    Raises:
        AssertionError: a command ended or printed otherwise than the page says.
    """
    environment, place, done = dict(variables), folder, list[Typed]()
    for block in blocks(page):
        if block.title:
            (place / block.title).write_text(block.code, encoding="utf-8")
        elif block.language == "console":
            for one in typed(block):
                done.append(one)
                words = shlex.split(one.command, comments=True)
                if words[0] == "cd":
                    place = place / words[1]
                elif words[0] == "export":
                    environment |= dict(word.split("=", 1) for word in words[1:])
                else:
                    _run(one, page, place, environment)
    return done


def _run(one: Typed, page: Path, place: Path, environment: Mapping[str, str]) -> None:
    ended = subprocess.run(
        ["bash", "-c", one.command],
        cwd=place,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    where = f"{page.name}:{one.line}: $ {one.command}"
    if (ended.returncode != 0) is not one.fails:
        raise AssertionError(f"{where}\nexit code {ended.returncode}\n{ended.stdout}")
    if one.output is not None and not matches(one.output, ended.stdout):
        said = "\n".join(one.output)
        raise AssertionError(f"{where}\n--- the page says\n{said}\n--- printed was\n{ended.stdout}")
