"""Eight tools that a good engineer writes by hand in an afternoon: what the floors have in common.

Plain functions over pathlib. No confinement, no atomic writes, no limits, no state but the todo list.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["INSTRUCTIONS", "Session"]

INSTRUCTIONS = """You are a coding agent. You work in a directory with the file tools, and run commands with execute.
Read a file before you edit it. Keep a todo list for work of several steps. Say briefly what you did."""


@dataclass
class Session:
    """What a session of a floor holds, and its tools.

    Attributes:
        root: its directory.
        todos: its list.
    """

    root: Path
    todos: list[str] = field(default_factory=list[str])

    @property
    def app(self) -> Session:
        """Itself: where the tools find it, as in the deps of an agent of ours that is given these tools."""
        return self

    def ls(self, path: str = ".") -> str:
        """List a directory."""
        entries = sorted((self.root / path).iterdir(), key=lambda entry: (entry.is_file(), entry.name))
        return "\n".join(f"{e.name}/" if e.is_dir() else f"{e.name} ({e.stat().st_size} bytes)" for e in entries)

    def read_file(self, path: str, offset: int = 0, limit: int = 2000) -> str:
        """Read lines of a file, numbered, after `offset` skipped ones."""
        lines = (self.root / path).read_text().splitlines()
        shown = lines[offset : offset + limit]
        more = len(lines) - offset - len(shown)
        text = "\n".join(f"{number:>6}\t{line}" for number, line in enumerate(shown, offset + 1))
        return f"{text}\n... ({more} more lines)" if more > 0 else text

    def write_file(self, path: str, content: str) -> str:
        """Create or replace a file."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
        return f"Wrote {content.count(chr(10))} lines to {path}"

    def edit_file(self, path: str, old_string: str, new_string: str, replace_all: bool = False) -> str:
        """Replace a text in a file."""
        target = self.root / path
        text = target.read_text()
        found = text.count(old_string)
        if not found:
            return f"Error: not found in {path}"
        if found > 1 and not replace_all:
            return f"Error: found {found} times in {path}; give more context or set replace_all"
        target.write_text(text.replace(old_string, new_string))
        return f"Replaced {found} occurrence(s) in {path}"

    def glob(self, pattern: str, path: str = ".") -> str:
        """Find files by name."""
        found = sorted(str(file.relative_to(self.root)) for file in (self.root / path).glob(pattern) if file.is_file())
        return "\n".join(found[:100]) or "No files"

    def grep(self, pattern: str, path: str = ".", glob: str = "**/*") -> str:
        """Search files with a regular expression."""
        expression, found = re.compile(pattern), list[str]()
        for file in sorted((self.root / path).glob(glob)):
            if file.is_file():
                for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1):
                    if expression.search(line):
                        found.append(f"{file.relative_to(self.root)}:{number}: {line[:200]}")
        return "\n".join(found[:100]) or "No matches"

    def execute(self, command: str, timeout: int = 120) -> str:
        """Run a shell command."""
        done = subprocess.run(command, shell=True, cwd=self.root, capture_output=True, text=True, timeout=timeout)
        return f"{done.stdout}{done.stderr}\n[exit code {done.returncode}]"

    def write_todos(self, todos: list[str]) -> str:
        """Replace the todo list."""
        self.todos = todos
        return f"{len(todos)} todos"
