"""What the modules of a package import, read from their source: at run time, inside functions too, and for types."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple


class Imports(NamedTuple):
    """The names that one module imports, absolute, as `package.module.name`.

    Attributes:
        run: at run time, wherever in the file the import stands.
        types: under `if TYPE_CHECKING:` only.
    """

    run: frozenset[str]
    types: frozenset[str]


def read(package: Path) -> dict[str, Imports]:
    """Module -> what it imports, for every module of the package that stands in this folder."""
    out: dict[str, Imports] = {}
    for path in sorted(each for each in package.rglob("*.py") if "suites_of_ours" not in each.parts):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        here = parts[:-1]  # the package that a single dot means
        name = ".".join(here if parts[-1] == "__init__" else parts)
        found = [*_imports(ast.parse(path.read_text(encoding="utf-8")), here, types=False)]
        run = frozenset(name for name, types in found if not types)
        out[name] = Imports(run, frozenset(name for name, types in found if types) - run)
    return out


def _imports(node: ast.AST, here: list[str], *, types: bool) -> Iterator[tuple[str, bool]]:
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        for child in node.body:
            yield from _imports(child, here, types=True)
        for child in node.orelse:
            yield from _imports(child, here, types=types)
        return
    if isinstance(node, ast.Import):
        yield from ((alias.name, types) for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        base = here[: len(here) - node.level + 1] if node.level else []
        yield from ((".".join([*base, *filter(None, [node.module]), alias.name]), types) for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, here, types=types)


def edges(modules: Mapping[str, Imports], *, types: bool = False) -> dict[str, set[str]]:
    """Module -> the modules of the same package that it imports, at run time or for types only."""
    out: dict[str, set[str]] = {}
    for module, imports in modules.items():
        names = imports.types if types else imports.run
        out[module] = {found for name in names if (found := _module(name, modules)) and found != module}
    return out


def _module(name: str, modules: Mapping[str, Imports]) -> str | None:
    while name and name not in modules:
        name = name.rpartition(".")[0]
    return name or None


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one module (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    out: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            component = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(component) > 1:
                out.append(sorted(component))

    for node in graph:
        if node not in index:
            visit(node)
    return out
