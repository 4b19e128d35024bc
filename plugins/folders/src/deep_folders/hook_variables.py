"""Find what a folder's hooks need of this machine, as far as their text shows it: variables, and programs."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from deep_core.plugin_api import find_program

from .environment import ENVIRONMENT
from .folder import Folder, read_text

__all__ = ["fetched_programs", "packages_unknown", "programs_missing", "variables_read"]

CODE = {".py": "python", ".js": "js", ".mjs": "js", ".cjs": "js", ".ts": "js"}
"""The ending of a program -> how it reads variables. Others with `#!`, and what they call, are of a shell."""
SHELL = ("", ".bash", ".cmd", ".sh", ".zsh")
COMMON = "bun|bunx|claude|deno|docker|gh|go|java|jq|node|npm|npx|perl|php|pnpm|powershell|pwsh|python3?|ruby|uv|uvx"
_STARTS = re.compile(
    rf"(?:^|[;&|(`]|\b(?:then|do|else|exec|if|while|command -v|!))[ \t]*({COMMON})(?=[ \t;&|)\n]|$)", re.M
)
_FETCHES = re.compile(r"\b(npx|bunx|uvx|pnpm dlx|pipx run)(?:\s+-{1,2}[\w-]+)*\s+([@\w][\w@/.-]*)")
NPM_SECONDS = 10.0
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
    r"CLAUDE_(?:ENV_FILE|HOOK_EVENT_NAME|PLUGIN_\w+|PROJECT_DIR|SESSION_ID|SKILL_DIR)|BASH\w*|E?UID|FUNCNAME|(?:HOST|MACH|OS)TYPE|HOSTNAME|IFS|LINENO|OPT\w+"
    r"|(?:OLD)?PWD|PIPESTATUS|PPID|PS[14]|PYTHONDONTWRITEBYTECODE|RANDOM|REPLY|SECONDS|SHLVL"
)
"""What the shell sets, and what a folder's programs get of us."""


def variables_read(folder: Folder) -> list[str]:
    """Return the variables that the programs of a folder's hooks read of the user's environment, by name.

    A program counts if a hook's command names it, or one that counts does. What reads a name that it computes may
    read more.
    """
    found = {name for text, kind in _texts(folder) for name in _read_by(text, kind)}
    return sorted(name for name in found if name not in ENVIRONMENT and not _OWN.fullmatch(name))


def programs_missing(folder: Folder) -> list[str]:
    """Return the programs that a folder's hooks may start and that are not on the PATH, of those in common use."""
    texts = [re.sub(r"(?m)^\s*#.*", "", text) for text, kind in _texts(folder) if kind == "shell"]
    named = {name for text in texts for name in _STARTS.findall(text)}
    named |= {hook.command for hook in folder.hooks if hook.args is not None and "/" not in hook.command}
    return sorted(name for name in named if find_program(name, outside=str(folder.root)) is None)


def fetched_programs(folder: Folder) -> list[str]:
    """Return what the commands of a folder's hooks run as a registry has it then, such as `npx prettier`."""
    return sorted({" ".join(found) for text in _commands(folder) for found in _FETCHES.findall(text)})


def packages_unknown(folder: Folder) -> list[str]:
    """Return the packages that a folder's hooks run by npx and that the registry of the user's npm does not have."""
    npm = find_program("npm")
    names = [command.removeprefix("npx ") for command in fetched_programs(folder) if command.startswith("npx ")]
    return [] if npm is None else [name for name in names if _is_unknown(name, npm)]


def _is_unknown(name: str, npm: str) -> bool:
    with TemporaryDirectory() as place:  # npm reads the configuration of the folder that it starts in
        try:
            asked = subprocess.run([npm, "view", name, "name"], cwd=place, capture_output=True, timeout=NPM_SECONDS)
        except (OSError, subprocess.TimeoutExpired):
            return False
    return asked.returncode != 0 and b"E404" in asked.stderr


def _commands(folder: Folder) -> list[str]:
    return [" ".join([hook.command, *(hook.args or ())]) for hook in folder.hooks]


def _texts(folder: Folder) -> Iterator[tuple[str, str]]:
    """Yield (text, kind) of the commands of a folder's hooks, and of the programs that they lead to."""
    commands = "\n".join(_commands(folder))
    yield commands, "shell"
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
            yield text, kind
            texts.append(text)


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
