"""tests/threats.md: each threat of the table has its row, and the tests that it names exist."""

from __future__ import annotations

import re

import pytest

from tests.environments import REPOSITORY

THREATS = [str(number) for number in range(1, 31)]
ROWS = re.findall(r"^\| (\d+) \|(.*)\|$", (REPOSITORY / "tests" / "threats.md").read_text(encoding="utf-8"), re.M)


def test_every_threat_has_its_row() -> None:
    assert [number for number, _ in ROWS] == THREATS


@pytest.mark.parametrize("number", THREATS)
def test_every_test_that_a_row_names_exists(number: str) -> None:
    cells = [cell.strip() for cell in dict(ROWS)[number].split("|")]
    assert len(cells) == 4
    assert all(cells), "each says what stops it and what does not"
    named = re.findall(r"`([^`]+)`", cells[3])
    assert named
    assert " ".join(f"`{name}`" for name in named) == cells[3]
    assert [name for name in named if "def test_" not in (REPOSITORY / name).read_text(encoding="utf-8")] == []
