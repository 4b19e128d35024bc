"""How many of the files that answer a search task a map names, and what else names in as many tokens.

The oracle is scripted: a file counts as found if its path is in the text. As a program, it prints the numbers of the
page *Repository map*, of any tree: `python plugins/repo-map/tests/recall.py FOLDER [TASKS]`.
"""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

import anyio
from deep_backends import local_backend
from deep_repo_map.ranking import Ranked, rank
from deep_repo_map.rendering import CHARS_PER_TOKEN, render
from deep_repo_map.slot import Memory
from deep_repo_map.sources import Limits, Sources, read_sources
from pydantic_ai.workspaces import Workspace

STOP = {
    "and", "are", "but", "for", "from", "has", "have", "into", "its", "not", "one", "that", "the", "their", "them",
    "they", "this", "too", "what", "when", "where", "which", "who", "with",
}  # fmt: skip


@dataclass(frozen=True)
class Task:
    """A question, as words to look for, and the files that answer it."""

    words: tuple[str, ...]
    answers: frozenset[str]


Way: TypeAlias = Callable[[Task, int], str]
"""(task, tokens) -> what a model reads."""


def read_tree(root: Path) -> Sources:
    async def read() -> Sources:
        return await read_sources(Workspace(local_backend(root)), "", Memory(), Limits(seconds=300))

    return anyio.run(read)


def name_tasks(root: Path, sources: Sources, most: int) -> tuple[list[Task], list[Task]]:
    """Tasks *which file defines NAME* and *which files use NAME*, for public names that one file defines.

    Python's own parser says what is right.
    """
    definers: dict[str, set[str]] = defaultdict(set)
    users: dict[str, set[str]] = defaultdict(set)
    for path in sources.files:
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse((root / path).read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            match node:
                case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name):
                    users[name].add(path)
                case _:
                    pass
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                definers[node.name].add(path)
    names = sorted(
        name
        for name, paths in definers.items()
        if len(paths) == 1 and not name.startswith(("_", "test", "Test")) and 1 <= len(users[name] - paths) <= 12
    )
    chosen = random.Random(7).sample(names, min(most, len(names)))
    return (
        [Task((name,), frozenset(definers[name])) for name in chosen],
        [Task((name,), frozenset(users[name] - definers[name])) for name in chosen],
    )


def change_tasks(root: Path, sources: Sources, most: int) -> list[Task]:
    """Tasks *where would this change go*: the words of a commit's subject, and the one to three files it changed."""
    log = subprocess.run(
        ["git", "-C", str(root), "log", "--no-merges", "--format=%x01%s", "--name-only", "--diff-filter=M"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    tasks: list[Task] = []
    for commit in log.split("\x01")[1:]:
        subject, *paths = commit.split("\n")
        code = frozenset(path for path in paths if path.endswith(".py") and "test" not in path)
        words = [word for word in re.findall(r"[A-Za-z_]{3,}", subject) if word.lower() not in STOP]
        if 1 <= len(code) <= 3 and code <= sources.files.keys() and words:
            tasks.append(Task(tuple(dict.fromkeys(words))[:20], code))
    return random.Random(7).sample(tasks, min(most, len(tasks)))


def ways(root: Path, sources: Sources) -> Mapping[str, Way]:
    """What a model can read: a listing, the files with a word of the task, and maps."""
    texts = {path: (root / path).read_text("utf-8", "replace") for path, parsed in sources.files.items() if parsed.used}
    whole = rank(sources.files)
    listing = "\n".join(sorted(texts))

    @cache
    def grepped(task: Task) -> str:
        pattern = re.compile("|".join(rf"\b{re.escape(word)}" for word in task.words), re.IGNORECASE)
        return "\n".join(path for path in sorted(texts) if pattern.search(texts[path]))

    @cache
    def focused(task: Task) -> Ranked:
        return rank(sources.files, task.words)

    return {
        "glob": lambda task, tokens: listing[: tokens * CHARS_PER_TOKEN],
        "grep": lambda task, tokens: grepped(task)[: tokens * CHARS_PER_TOKEN],
        "map": lambda task, tokens: render(sources, whole, tokens),
        "map with focus": lambda task, tokens: render(sources, focused(task), tokens),
    }


def recall(tasks: Sequence[Task], way: Way, tokens: int) -> float:
    """Return the mean share of the answers that are named."""
    return fmean(
        fmean(is_named(path, text) for path in task.answers) for task in tasks for text in (way(task, tokens),)
    )


def is_named(path: str, text: str) -> bool:
    return re.search(rf"(?<![\w/.-]){re.escape(path)}(?![\w/-])", text) is not None


def main(root: Path, most: int) -> None:
    sources = read_tree(root)
    defined, used = name_tasks(root, sources, most)
    kinds = {"defines": defined, "uses": used}
    if (root / ".git").exists():
        kinds["changes"] = change_tasks(root, sources, most)
    print(root.name, len(sources.files), "files;", {kind: len(tasks) for kind, tasks in kinds.items()}, sources.left)
    for name, way in ways(root, sources).items():
        for tokens in (500, 1_000, 2_000):
            shares = "  ".join(f"{kind} {recall(tasks, way, tokens):.2f}" for kind, tasks in kinds.items())
            print(f"{name:15} {tokens:5,}  {shares}", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 40)
