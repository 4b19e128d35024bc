"""Find the variables of the environment that a folder's hooks read, as far as their text shows it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from .environment import ENVIRONMENT
from .folder import Folder, read_text

__all__ = ["variables_read"]

CODE = {".py": "python", ".js": "js", ".mjs": "js", ".cjs": "js", ".ts": "js"}
"""The ending of a program -> how it reads variables. Others with `#!`, and what they call, are of a shell."""
SHELL = ("", ".bash", ".cmd", ".sh", ".zsh")
MOST_FILES = 1_000
_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_READS = {
    "python": re.compile(
        rf"environ(?:\.(?:get|pop|setdefault)\(|\[)\s*[\"']({_NAME})[\"']|getenv\(\s*[\"']({_NAME})[\"']"
    ),
    "js": re.compile(rf"\benv(?:\.|\?\.|\[[\"'])([A-Z][A-Z0-9_]*)\b|\benv\.get\([\"']({_NAME})[\"']"),
    "shell": re.compile(r"\$(?:\{([A-Z][A-Z0-9_]+)|([A-Z][A-Z0-9_]+))"),
}
_BY_VARIABLE = re.compile(r"environ(?:\.get\(|\[)\s*[a-z_]")
_CONSTANT = re.compile(r"[\"']([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)[\"']\s*[,)\]}]")
"""In Python that reads a variable whose name it computes, a constant of an enumeration may be one."""
_SET = re.compile(
    r"(?:^|[;&|(]|\b(?:local|export|declare|readonly|read|for|typeset)(?:\s+-\w+)*)\s*([A-Z][A-Z0-9_]+)\b(?:=|\s+in\b|\s*$)",
    re.M,
)
_ITS_DEFAULT = re.compile(r"\$\{([A-Z][A-Z0-9_]+):?[-=?+]")
_OWN = re.compile(
    r"CLAUDE_(?:ENV_FILE|PROJECT_DIR|PLUGIN_\w+)|BASH\w*|E?UID|FUNCNAME|(?:HOST|MACH|OS)TYPE|HOSTNAME|IFS|LINENO|OPT\w+"
    r"|(?:OLD)?PWD|PIPESTATUS|PPID|PS[14]|PYTHONDONTWRITEBYTECODE|RANDOM|REPLY|SECONDS|SHLVL"
)
"""What the shell sets, and what a folder's programs get of us."""


def variables_read(folder: Folder) -> list[str]:
    """Return the variables that the programs of a folder's hooks read of the user's environment, by name.

    A program counts if a hook's command names it, or one that counts does. What reads a name that it computes may
    read more.
    """
    commands = "\n".join(" ".join([hook.command, *(hook.args or ())]) for hook in folder.hooks)
    found = set(_read_by(commands, "shell"))
    waiting = dict(_programs(folder.root)) if folder.hooks else {}
    texts = [commands]
    while texts:
        text = texts.pop()
        for path in [path for path in waiting if _names(text, path)]:
            kind = waiting.pop(path)
            try:
                text = read_text(path)
            except (OSError, ValueError):
                continue
            if kind == "shell" and not (path.suffix or text.startswith("#!")):
                continue
            found.update(_read_by(text, kind))
            texts.append(text)
    return sorted(name for name in found if name not in ENVIRONMENT and not _OWN.fullmatch(name))


def _programs(root: Path) -> Iterator[tuple[Path, str]]:
    count = 0
    for place, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in (".git", "node_modules"))
        for name in sorted(files):
            path = Path(place, name)
            kind = CODE.get(path.suffix) or ("shell" if path.suffix in SHELL else "")
            if kind:
                count += 1
                if count > MOST_FILES:
                    return
                yield path, kind


def _names(text: str, path: Path) -> bool:
    """Whether a text names a file, or imports it."""
    if path.name in text:
        return True
    return (
        path.suffix in CODE
        and re.search(rf"(?:import|from|require\()[^\n]*\b{re.escape(path.stem)}\b", text) is not None
    )


def _read_by(text: str, kind: str) -> Iterator[str]:
    named = {name for match in _READS[kind].finditer(text) for name in match.groups() if name}
    if kind == "shell":
        named -= set(_SET.findall(text)) - set(_ITS_DEFAULT.findall(text))
    elif kind == "python" and _BY_VARIABLE.search(text):
        named |= set(_CONSTANT.findall(text))
    yield from named
