"""The work that each contender does: the same calls on the real disk, which a scripted model asks for.

A turn is one request, answered by three calls: write a new file of 2.2 KB, read the file of the turn before, list the
directory. Every turn writes a new file (some contenders refuse to replace one), eight to a directory: `ls` stays
short. The calls do not depend on each other: contenders are free to run them at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["CONTENT_CHARS", "WINDOW", "Step", "check", "prepare", "step", "tool_chars"]

CONTENT_CHARS = 2_200
WINDOW = 10_000_000
"""Tokens of the models' window: too large for anyone to compact, so all carry the same history."""
FILES_PER_DIRECTORY = 8
_LINE = "A line of plain text, as notes have them, with nothing in it to remember: {:06}\n"


@dataclass(frozen=True)
class Step:
    """The calls of one turn. Paths are relative to the working directory."""

    write: str
    content: str
    read: str
    ls: str


def _name(turn: int) -> str:
    return f"d{turn // FILES_PER_DIRECTORY:03}/n{turn % FILES_PER_DIRECTORY}.md"


def content(turn: int) -> str:
    """Return 2,200 characters of lines that differ from turn to turn."""
    line = _LINE.format(turn)
    return (line * (CONTENT_CHARS // len(line) + 1))[: CONTENT_CHARS - 1] + "\n"


def step(turn: int) -> Step:
    """Return the calls of turn `turn`, from 0."""
    return Step(_name(turn), content(turn), _name(turn - 1) if turn else "seed.md", _name(turn).partition("/")[0])


def tool_chars(name: str, description: str, parameters: Mapping[str, Any]) -> int:
    """Count the characters of a tool as compact JSON, without what a provider adds."""
    shown = {"name": name, "description": description, "parameters": parameters}
    return len(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))


def prepare(root: Path, turns: int) -> None:
    """Make the files and directories that the turns read and list."""
    (root / "seed.md").write_text(content(999_999))
    for turn in range(0, turns, FILES_PER_DIRECTORY):
        (root / _name(turn)).parent.mkdir()
        (root / _name(turn)).parent.joinpath("seed.md").write_text("seed\n")


def check(root: Path, turns: int) -> None:
    """Fail unless each turn wrote its file, byte for byte."""
    for turn in range(turns):
        assert (root / _name(turn)).read_text() == content(turn), f"turn {turn} was not done"
