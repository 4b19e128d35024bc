"""docs/tool-universe-tests.md: requirements and defects have their rows, and each test that a row names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from deep_universe import Universe

TESTS = Path(__file__).parent
DOCS = Path(__file__).parents[3] / "docs"
PAGE = DOCS / "tool-universe-tests.md"
COUNTS = {"U": 14, "E": 12, "P": 11, "D": 10, "X": 20, "M": 9, "B": 6, "C": 3}
REQUIREMENTS = [f"{letter}{number}" for letter, count in COUNTS.items() for number in range(1, count + 1)]
DEFECTS = [str(number) for number in range(1, 16)]
NODE = re.compile(r"`(test_\w+\.py)::(\w+)`")


def rows() -> dict[str, list[tuple[str, str]]]:
    """The rows of all tables: requirement or number of a defect -> (file, test) of each test that it names."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if match := re.match(r"\| ([A-Z]?\d+) \|", line):
            assert match[1] not in found, f"row {match[1]} stands there twice"
            found[match[1]] = NODE.findall(line.rsplit("|", 2)[1])
            assert line.count("::") == len(found[match[1]]), f"row {match[1]} names a test in another form"
    return found


def functions(file: str) -> set[str]:
    """The test functions at the top level of a file."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_requirement_and_every_defect_has_its_row() -> None:
    assert list(rows()) == [*REQUIREMENTS, *DEFECTS]


@pytest.mark.slow
@pytest.mark.parametrize("row", [*REQUIREMENTS, *DEFECTS])
def test_every_test_that_a_row_names_exists_and_has_its_name(row: str) -> None:
    named = rows()[row]
    assert named, f"row {row} names no test"
    prefix = f"test_defect_{row}_" if row.isdigit() else f"test_{row}_"
    assert [(file, test) for file, test in named if test not in functions(file) or not test.startswith(prefix)] == []


def test_every_driver_is_listed() -> None:
    section = (DOCS / "tool-universe.md").read_text(encoding="utf-8").split("| Driver | Renders |")[1].split("\n\n")[0]
    firsts = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    listed = [name for cell in firsts for name in re.findall(r"`([a-z-]+)`", cell)]
    assert listed == [driver.name for driver in Universe().drivers]
