"""Reads the documentation's pages, and runs one: `python tests/docs_pages.py PAGE` in an empty directory.

Its ```` ```python ```` blocks run in order, each alone. A block with a title (```` ```python title="my_plugin.py" ````)
is imported, and is that file for the blocks below it. Other titled blocks are files only.
What the page prints stands in it as `#> text`; `…` there stands for anything. `<!-- model: [...] -->` lines, which
readers do not see, are the turns of the model that answers (tests.stubs).
"""

from __future__ import annotations

import builtins
import importlib
import importlib.util
import json
import os
import re
import symtable
import sys
import tomllib
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

FENCE = re.compile(r"^```(?P<language>[a-z]*)(?: +(?P<attributes>.*))?$")
TURNS = re.compile(r"<!-- model: (.*?) -->", re.S)
ROOT = Path(__file__).resolve().parent.parent
SHOWN_DIFFERENTLY = frozenset(
    ("BUILD_NUMBER", "CI", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "PYTHON_COLORS", "PY_COLORS")
)
"""Variables that CI or a terminal sets, and by which programs print more, less, or in colour."""


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, the file it stands for (empty for none), its text, and the line it starts on."""

    language: str
    title: str
    code: str
    line: int


def pages() -> list[Path]:
    """Everything a user reads that is written by hand, and the generated pages."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    lines = page.read_text(encoding="utf-8").splitlines()
    start, found, code = 0, None, list[str]()
    for number, line in enumerate(lines, 1):
        if found is None:
            found = FENCE.match(line)
            start, code = number + 1, []
        elif line == "```":
            title = re.search(r'title="([^"]+)"', found["attributes"] or "")
            yield Block(found["language"], title[1] if title else "", "\n".join(code) + "\n", start)
            found = None
        else:
            code.append(line)
    if found is not None:
        raise ValueError(f"{page}:{start - 1}: the block is not closed")


def undefined(code: str) -> set[str]:
    """The names that a block uses and neither defines nor imports: what a reader misses who copies it alone."""

    def used(table: symtable.SymbolTable) -> Iterator[str]:
        for symbol in table.get_symbols():
            if symbol.is_referenced() and (symbol.is_global() or table.get_type() == "module"):
                yield symbol.get_name()
        for child in table.get_children():
            yield from used(child)

    top = symtable.symtable(code, "block", "exec")
    own = {symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    return {name for name in used(top) if name not in own and not hasattr(builtins, name)} - {"__name__", "__file__"}


def turns(page: Path) -> list[Any]:
    """What the model answers on this page, as `Script.from_json` takes it."""
    out: list[Any] = []
    for text in TURNS.findall(page.read_text(encoding="utf-8")):
        out += json.loads(text)
    return out


def expected(page: Path) -> list[str]:
    """What the page says that it prints."""
    lines = [line for block in blocks(page) if block.language == "python" for line in block.code.splitlines()]
    return [line.strip().removeprefix("#>").strip() for line in lines if line.strip().startswith("#>")]


def brought_by_everything() -> list[str]:
    """The distributions with plugins that a reader of the documentation has installed."""
    data = tomllib.loads((ROOT / "plugins" / "everything" / "pyproject.toml").read_text(encoding="utf-8"))
    names = [re.split(r"[\[<>=]", text)[0] for text in data["project"]["dependencies"]]
    return sorted(name for name in names if name.startswith("deep-") and name != "deep-agent-core")


def generator() -> ModuleType:
    """docs/generate.py as a module."""
    spec = importlib.util.spec_from_file_location("docs_generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def readers_environment(home: Path) -> dict[str, str]:
    """An environment with what deep-everything brings, `deep` on the path, an empty home, no key and no settings."""
    others = ("DEEP_", "XDG_", "PYTEST_")
    kept = {key: value for key, value in os.environ.items() if key not in SHOWN_DIFFERENTLY}
    out = {key: value for key, value in kept.items() if not key.startswith(others) and "API_KEY" not in key}
    out["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), out["PATH"]])
    allowed = ",".join(brought_by_everything())
    return out | {"HOME": str(home), "NO_PROXY": "*", "PYTHONUTF8": "1", "DEEP_PLUGINS_ALLOW": allowed}


def run(page: Path) -> None:
    """Run each Python block of a page alone, as a reader does who copies it; errors point at the page's own lines.

    Each block has a process and a directory of its own. The files that earlier blocks stand for are in it.
    """
    import deep_core  # once, for all processes

    warnings.filterwarnings("error", category=deep_core.PluginWarning)
    top, files = Path.cwd(), list[Block]()
    for number, block in enumerate(blocks(page)):
        if block.title:
            files.append(block)
        if block.language != "python" or (block.title and Path(block.title).parent != Path()):
            continue
        directory = top / str(number)
        directory.mkdir()
        for file in files:
            (directory / file.title).parent.mkdir(parents=True, exist_ok=True)
            (directory / file.title).write_text(file.code, encoding="utf-8")
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            os.chdir(directory)
            sys.path[0] = str(directory)
            run_alone(block, page)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status:
            raise SystemExit(f"{page}:{block.line}: the block, run alone, ended with {status}")


def run_alone(block: Block, page: Path) -> NoReturn:
    """Run a block and end the process."""
    try:
        if block.title:
            importlib.import_module(Path(block.title).stem)
        else:
            source = "\n" * (block.line - 1) + block.code
            exec(compile(source, page, "exec", dont_inherit=True), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    run(Path(sys.argv[1]))
