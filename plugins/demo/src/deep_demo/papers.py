"""The texts that the tour reads and writes: the README's list, the changelog, a usage page, notes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from .reading import TestRun

__all__ = ["Readme", "changelog_edit", "free_name", "notes_page", "read_readme", "runnable", "tick_edit", "usage_page"]

_OPEN = re.compile(r"^- \[ \] (.+)$")
_PAGE = re.compile(r"`([\w-]+(?:/[\w-]+)*\.md)`")
_COMMAND = re.compile(r"python3 -m (\w+)(?: [\w./-]+)*")
_UNRELEASED = re.compile(r"^#+ \[?unreleased\]?$", re.I)


@dataclass(frozen=True)
class Readme:
    """The content of a README.

    Attributes:
        name: of the file.
        title: its first heading.
        intro: the first paragraph after it.
        command: the first line of its first block of code.
        open_items: the items `- [ ] …` of its list.
        pages: Markdown files named in the open items.
    """

    name: str = ""
    title: str = ""
    intro: str = ""
    command: str = ""
    open_items: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()


def read_readme(name: str, lines: Sequence[str]) -> Readme:
    """Parse the lines of a README."""
    title = next((line.lstrip("# ").strip() for line in lines if line.startswith("#")), "")
    prose = (line for line in lines if line.strip() and not line.startswith(("#", "-", "```", "[", "!", "<")))
    fences = [number for number, line in enumerate(lines) if line.startswith("```")]
    command = lines[fences[0] + 1].strip() if fences and fences[0] + 1 < len(lines) else ""
    items = tuple(match[1].strip() for line in lines if (match := _OPEN.match(line)))
    pages = tuple(page for item in items for page in _PAGE.findall(item) if not page.lower().startswith("changelog"))
    return Readme(name, title, next(prose, "").strip(), command, items, pages)


def runnable(command: str, names: Sequence[str]) -> bool:
    """Whether the script may run a command of the README: a package of the folder with plain arguments.

    A file's text is not an order; a line with shell syntax is not run.
    """
    match = _COMMAND.fullmatch(command)
    return match is not None and f"{match[1]}/" in names


def tick_edit(item: str) -> tuple[str, str]:
    """The edit that ticks off an item: old and new text."""
    return f"- [ ] {item}", f"- [x] {item}"


def changelog_edit(lines: Sequence[str], entry: str) -> tuple[str, str] | None:
    """The edit that adds an entry to the unreleased section: old and new text; None without such a section."""
    at = next((number for number, line in enumerate(lines) if _UNRELEASED.match(line.strip())), None)
    if at is None:
        return None
    heading = lines[at]
    if len(lines) > at + 2 and not lines[at + 1] and lines[at + 2].startswith("- "):
        old = "\n".join([heading, "", lines[at + 2]])
        return old, "\n".join([heading, "", f"- {entry}", lines[at + 2]])
    return heading, "\n".join([heading, "", f"- {entry}"])


def usage_page(readme: Readme, output: str) -> str:
    """A page that shows the README's command and its output."""
    lines = [f"$ {readme.command}", *output.splitlines()]
    return "\n".join([f"# Using {readme.title or 'it'}", "", readme.intro, "", "```", *lines, "```", ""])


def free_name(names: Sequence[str]) -> str | None:
    """A free name for the notes."""
    used_names = {name.lower() for name in names}
    return next((name for name in ("NOTES.md", "NOTES-demo.md") if name.lower() not in used_names), None)


def notes_page(prompt: str, names: Sequence[str], paths: Sequence[str], readme: Readme, tests: TestRun | None) -> str:
    """Notes about a folder."""
    kinds = Counter(name.rsplit(".", 1)[-1] if "." in name else "other" for name in names if not name.endswith("/"))
    files = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
    lines = ["# Notes", "", f"Asked: {' '.join(prompt.split())[:200] or '(nothing)'}", ""]
    lines.append(f"- Folders: {', '.join(name for name in names if name.endswith('/')) or 'none'}")
    lines.append(f"- Files here, by kind: {files}")
    lines.append(f"- Python files below: {len(paths)}")
    if readme.name:
        lines.append(f"- {readme.name}: {readme.title or 'no heading'}")
    if tests is not None:
        lines.append(f"- Tests: {tests}")
    return "\n".join([*lines, ""])
