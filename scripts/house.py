"""Print the figures of the kernel that `tests/test_house.py` holds: `python scripts/house.py`.

Lines are counted without docstrings, comments and blank lines. `Any` counts wherever it stands in code, imports and
quoted types included, and so does each use of an alias whose value has it. Complexity is McCabe's, with each condition,
comprehension and boolean operator. A circle is a strongly connected component of imports, those for types included.
"""

from __future__ import annotations

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.count_code import code_lines  # noqa: E402 - the path comes first
from tests.import_graph import circles, edges, read  # noqa: E402

LIMITS = {
    "code lines": 5_300,
    "code lines of plugins/": 2_000,
    "Any in 100 code lines": 6.0,
    "casts in 100 code lines": 0.6,
    "highest complexity of a function": 15,
    "files in the largest circle, imports for types included": 4,
}
"""What each figure may be at most; lines stay below."""


BRANCHES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.ExceptHandler, ast.IfExp, ast.match_case)


class Figure(NamedTuple):
    """A figure, and where it stands."""

    value: float
    where: str = ""


def figures(kernel: Path = ROOT / "deep_core") -> dict[str, Figure]:
    """Return the figures of a kernel in this folder."""
    paths = sorted(kernel.rglob("*.py"))
    lines = sum(map(code_lines, paths))
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}
    names = {"Any"} | {name for tree in trees.values() for name in _aliases(tree)}
    anys = {path: sum(word in names for word in _words(path, tree)) for path, tree in trees.items()}
    casts = sum(word == "cast" for path, tree in trees.items() for word in _words(path, tree, calls=True))
    hardest = max(
        (complexity(node), f"{path.relative_to(kernel)}:{node.lineno} {node.name}")
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    graph = read(kernel)
    run, types = edges(graph), edges(graph, types=True)
    found = circles({module: run[module] | types[module] for module in graph})
    largest: list[str] = max(found, key=len) if found else []
    most = max(anys, key=lambda path: anys[path])
    values = [
        Figure(lines),
        Figure(sum(map(code_lines, (kernel / "plugins").rglob("*.py")))),
        Figure(round(100 * sum(anys.values()) / lines, 2), f"{most.relative_to(kernel)} has {anys[most]}"),
        Figure(round(100 * casts / lines, 2)),
        Figure(*hardest),
        Figure(len(largest), ", ".join(largest)),
    ]
    return dict(zip(LIMITS, values, strict=True))


def complexity(function: ast.AST) -> int:
    """Return McCabe's complexity of a function, functions inside it included."""
    out = 1
    for node in ast.walk(function):
        if isinstance(
            node, ast.If | ast.For | ast.AsyncFor | ast.While | ast.ExceptHandler | ast.IfExp | ast.match_case
        ):
            out += 1
        elif isinstance(node, ast.comprehension):
            out += 1 + len(node.ifs)
        elif isinstance(node, ast.BoolOp):
            out += len(node.values) - 1
    return out


def _aliases(tree: ast.Module) -> Iterator[str]:
    """Yield the names of a module that stand for a type with `Any` in it."""
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield from (alias.asname for alias in node.names if alias.name == "Any" and alias.asname)
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [target.id for target in targets if isinstance(target, ast.Name)]
            if re.search(r"\bAny\b", ast.unparse(node.value)):
                yield from (name for name in names if re.fullmatch(r"_?[A-Z]+[a-z]\w*", name))


def _words(path: Path, tree: ast.Module, *, calls: bool = False) -> Iterator[str]:
    """Yield the names in a file's code, and in its quoted types; with `calls`, only names that are called."""
    texts = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    docs = {text.lineno for text in texts if isinstance(text, ast.Constant)}
    with path.open("rb") as file:
        tokens = [*tokenize.tokenize(file.readline)]
    for token, following in pairwise(tokens):
        if token.type == tokenize.NAME and (not calls or following.string == "("):
            yield token.string
        elif token.type == tokenize.STRING and token.start[0] not in docs and not calls:
            yield from re.findall(r"\w+", token.string)


def too_high(name: str, value: float) -> bool:
    """Whether a figure is above its limit; a number of lines stays below."""
    return value > LIMITS[name] or (name.startswith("code lines") and value == LIMITS[name])


if __name__ == "__main__":
    found = figures()
    for name, (value, where) in found.items():
        note = f" ({where})" if where else ""
        print(f"{value:8g} of {LIMITS[name]:5g}  {name}{note}{'  TOO HIGH' if too_high(name, value) else ''}")
    sys.exit(any(too_high(name, value) for name, (value, _) in found.items()))
