"""tests/defects.md: every row is there, and every test that it names exists."""

from __future__ import annotations

import ast
import re

import pytest

from tests.environments import REPOSITORY

PAGE = REPOSITORY / "tests" / "defects.md"
DEFECTS = [str(number) for number in range(1, 17)]
PROMISES = [f"P{number}" for number in range(1, 8)]
NODE = re.compile(r"`((?:tests|plugins)/[\w./-]+\.py)::(\w+)`")


def rows() -> dict[str, str]:
    """The rows of both tables: number -> the whole line."""
    found: dict[str, str] = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        match = re.match(r"\| (P?\d+) \|", line)
        if match:
            assert match[1] not in found, f"row {match[1]} stands there twice"
            found[match[1]] = line
    return found


def collected(file: str) -> set[str]:
    """The test functions of a file, as pytest collects them at its top level."""
    tree = ast.parse((REPOSITORY / file).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {function.name for function in functions if function.name.startswith("test_")}


def test_every_defect_and_every_promise_has_its_row() -> None:
    assert list(rows()) == [*DEFECTS, *PROMISES]


@pytest.mark.parametrize("number", [*DEFECTS, *PROMISES])
def test_every_test_that_a_row_names_exists(number: str) -> None:
    shown = NODE.findall(rows()[number].rsplit("|", 2)[1])
    assert shown, f"row {number} names no test"
    assert rows()[number].count("::") == len(shown), f"row {number} names a test in another form"
    missing = [f"{file}::{name}" for file, name in shown if name not in collected(file)]
    assert missing == []
